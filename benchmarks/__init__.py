"""Measurements that anyone can repeat; installed as `constrained.benchmarks`, one module per question.

    constrained bench    how fast are we next to llguidance, XGrammar and glrmask?  (`speed`; `collection` of schemas)

    python -m constrained.benchmarks.…
        laws             does every mask bit agree with the matcher and with the plain twin?
        digests          are all masks the same as in another version?
        walks            does every walk along the masks reach an end?
        always_valid     does everything that a random model finishes parse and fit its schema?
        always_finished  does every text with a budget of tokens end as a word?
        forged           does a reader find a call that the grammar did not mean as one?  (`readers`: published ones)
        keywords         which JSON Schema keywords does each engine enforce?
        cliffs           do large bounds cost anything?
        bombs            does every hostile input work, or end soon with an error that names the place?
        faults           does a matcher survive refused allocations and interrupts, anywhere?
        memory           what do a vocabulary, a mask and a constraint hold?
        soak             does a process that serves strangers stay as it was?
        fairness         does one slow constraint keep others waiting?

docs/benchmarks.md says how they measure; each module names its own options.

Records are dated JSON lines in `record/`, with the machine and the versions in their first line; they only grow.
"""
