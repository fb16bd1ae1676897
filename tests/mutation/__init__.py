"""Mutation testing: small faults put into the Python modules, one at a time, and whether the suite notices.

    python -m tests.mutation reach   --out reach.json --jobs 2          which test enters which function
    python -m tests.mutation run     --reach reach.json --count 300 --seed 1 --jobs 2 --out survivors.jsonl

`mutate` makes the faults, `reach` finds the tests to ask, `run` asks them.
"""
