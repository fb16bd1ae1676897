"""Text or token ids → messages: what a chat format's grammar says of a turn, a conversation or a call.

    text | ids ── inputs ──► characters, special tokens ── simulation (network, payload) ──► marks
    marks ── assemble ──► messages ── reading (judged by tools, schemas, strict) ──► messages
                    └── rejections: where the simulation stopped, or what was judged wrong ──► `Rejected`

One simulation serves whole texts, cut texts and streams.  It reads what a format's accepted rules derive and is not
bound to tools: which tool a call means and whether its arguments fit is judged afterwards, on values, so that an error
says what is wrong and not only where.
"""
