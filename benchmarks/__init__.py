"""Measurements that anyone can repeat; installed as `constrained.benchmarks`, one module per question.

    constrained bench                               how fast are we next to llguidance and XGrammar?  (`speed`)
    python -m constrained.benchmarks.laws           does every mask bit agree with the matcher and with the plain twin?
    python -m constrained.benchmarks.always_valid   does everything that a random model finishes parse and fit its
    schema? python -m constrained.benchmarks.bombs          does every hostile input work, or end soon with an error
    that names the place? python -m constrained.benchmarks.memory         what do a vocabulary, a mask and a constraint
    hold? python -m constrained.benchmarks.faults         does a matcher survive refused allocations and interrupts,
    anywhere? python -m constrained.benchmarks.soak           does a process that serves strangers stay as it was?
    python -m constrained.benchmarks.fairness       does one slow constraint keep others waiting?

Records are dated JSON lines in `record/`, with the machine and the versions in their first line; they only grow.
"""
