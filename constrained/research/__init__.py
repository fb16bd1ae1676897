"""What people who study constrained generation ask of a constraint.

    trace      a generation step by step: what the mask removed, entropy, forced tokens, time (`Constraint.trace`)
    page       a trace as one self-contained HTML page
    words      how many words up to a length, which, a uniform draw; do two languages agree (`Constraint.count`,
    `enumerate`, `sample`, `language_equal`) samplers   samplers that do not bend the model's distribution as a hard
    mask does, for ``generate(custom_generate=…)`` aligned    … ASAp: grammar-aligned decoding;  `rejection` … AWRS:
    adaptive weighted rejection sampling coverage   which rules and schema branches a corpus of transcripts used

Nothing here is needed to generate; nothing below imports it.  Only `trace` and `samplers` use torch, and only inside
functions.
"""
