"""Tools to study constrained generation: traces, words of a language, coverage, samplers that correct a hard mask.

    trace      a generation step by step: what the mask removed, entropy, forced tokens, time (`Constraint.trace`)
    page       a trace as one self-contained HTML page
    words      how many words up to a length, which they are, a uniform draw, whether two languages agree
               (`Constraint.count`, `enumerate`, `sample`, `language_equal`)
    derive     a word drawn by weights of the rules
    lint       what a grammar says and cannot mean; `places` knows where its rules stand
    examples   a file of texts and what each is said to be, against a grammar; `texts` reads one
    specifications   the examples that the formats' specifications print, and what the grammars say of each
    compare    whether two grammars have the same texts, and what only one has
    coverage   which rules and schema branches a corpus of transcripts used
    samplers   decoding methods that do not bend the model's distribution as a hard mask does, for
               ``generate(custom_generate=…)``: `aligned` is ASAp, grammar-aligned decoding; `rejection` is AWRS,
               adaptive weighted rejection sampling
    exact      every word of a small language with its probability, which samplers are measured against

Nothing here is needed to generate; nothing below imports it.  Only `trace` and `samplers` use torch, and only inside
functions.
"""
