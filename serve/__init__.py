"""An OpenAI-compatible server over transformers, and the page to look at grammars with: ``constrained serve``.

    engine      a model and its grammars: many answers at once, a token of each at a time
    chat        the body of a request, read and checked → what is generated → the answer's parts
    app         the routes: /v1/chat/completions, /v1/models, /health, /metrics, the page, /playground/…
    playground  what the page asks: readings, masks, diagrams; the page as one file
    diagrams    grammar → railroad diagrams

For people without a serving engine.  The same constraints run in vLLM and SGLang, which are faster on a GPU.
"""
