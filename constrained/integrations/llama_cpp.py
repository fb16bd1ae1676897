"""llama-cpp-python: ``llama(prompt, logits_processor=LogitsProcessorList([logits_processor(constraint)]))``.

An error inside a processor would be printed and passed over, and the generation go on without a constraint; so none is
raised there: what cannot be worked out ends the text, and the log says why (`rows`).  Beside ``logit_bias``
the host never calls its processors (llama-cpp-python 0.3.36); say what should be unlikely in another way.

Tested in tests/hosts/test_local.py, with the package and a model of random weights where it is installed.
"""

from __future__ import annotations

import ctypes
from typing import Any

from constrained.engine.compiled import CompiledGrammar
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import VocabularyError
from constrained.integrations.rows import OneSequence


def logits_processor(
    constraint: CompiledGrammar, *, prompt_length: int | None = None, max_new_tokens: int | None = None
) -> OneSequence:
    """Return a processor for a constraint.

    max_new_tokens: every text ends as a word within so many tokens; the host's own ``max_tokens`` has to be one more,
    for the stop token.
    """
    return OneSequence(constraint, prompt_length, max_new_tokens)


def vocabulary_of(llama: Any) -> Vocabulary:
    """Return the vocabulary of a `llama_cpp.Llama`: what each id adds to the text, and the ids that end a generation.

    Raises: VocabularyError: it is no `Llama`, or its tokens cannot be read.
    """
    import llama_cpp

    if not isinstance(llama, llama_cpp.Llama):
        raise VocabularyError(
            f"not a llama_cpp.Llama: {type(llama).__name__}", instead="the object that loaded the model"
        )
    table = llama_cpp.llama_model_get_vocab(llama._model.model)
    tokens: list[bytes | None] = []
    special: dict[str, int] = {}
    stop = []
    for token in range(llama_cpp.llama_vocab_n_tokens(table)):
        text = _piece(table, token)
        if llama_cpp.llama_vocab_is_control(table, token) or llama_cpp.llama_vocab_is_eog(table, token):
            name = text.decode("utf-8", "replace") or f"<{token}>"
            special[name if name not in special else f"{name}{token}"] = token
            text = b""
        if llama_cpp.llama_vocab_is_eog(table, token):
            stop.append(token)
        tokens.append(text or None)
    return Vocabulary(
        tokens, special, stop, encode=lambda text: llama.tokenize(text.encode(), add_bos=False, special=False)
    )


def _piece(table: Any, token: int) -> bytes:
    import llama_cpp

    size = 64
    while True:
        room = ctypes.create_string_buffer(size)
        length = llama_cpp.llama_token_to_piece(table, token, room, size, 0, True)
        if length >= 0:
            return bytes(room.raw[:length])
        size = -length
