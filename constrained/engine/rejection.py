"""The reasons of a refused token, worded when somebody asks.

Whoever tries tokens (speculative decoding, beams, tests of a tokenizer) catches most rejections and reads none.  To ask
a state for all bytes that could have come costs as much as ten masks; so a rejection holds what it needs to answer, and
answers on first sight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from constrained.engine.tokens.bitmask import number
from constrained.engine.twin.automaton import DEAD
from constrained.errors import LimitExceeded, Rejected, shown
from constrained.work import Budget, Preempted, begin, thread

if TYPE_CHECKING:
    from constrained.engine.tokens.vocabulary import Vocabulary

_MOST_SHOWN = 12  # bytes that a message lists
_MANY = 40  # bytes from which on it only counts them


def rejection(vocabulary: Vocabulary, kernel: Any, path: list[int], token: int) -> Rejected:
    """Return why a token is refused in a state of a kernel, the last of `path`: start, token, state, token, state, …,
    a list that from now on only grows.
    """
    return Rejected.__new__(Rejected, reasons, vocabulary, kernel, path, len(path), token)


def checked_token(vocabulary: Vocabulary, token: Any) -> int:
    """Return a token id as an int, whatever kind of int it is.

    Raises: Rejected: it is no int, or no token has this id.
    """
    known = number(token)
    if 0 <= known < vocabulary.size:
        return known
    kind = "" if isinstance(token, int) and not isinstance(token, bool) else f"; this is a {type(token).__name__}"
    raise Rejected(f"no token {shown(token)}", because=f"ids go from 0 to {vocabulary.size - 1}{kind}")


def token_name(vocabulary: Vocabulary, token: int) -> str:
    """Return how messages name a token."""
    text = vocabulary.tokens[token]
    if text is not None:
        return repr(text.decode("utf-8", "backslashreplace"))
    return vocabulary.names.get(token, "(unused)")


def reasons(vocabulary: Vocabulary, kernel: Any, path: list[int], length: int, token: int) -> dict[str, Any]:
    """Say how far the bytes of a token got that was refused behind `length` entries of a path, and what could have come
    there.
    """
    before, state = path[1:length:2], path[length - 1]
    text, read = vocabulary.tokens[token] or b"", 0
    outer = thread.budget
    try:
        begin(Budget())
        for byte in text:
            after = kernel.step_byte(state, byte)
            if after == DEAD:
                break
            state, read = after, read + 1
        expected = _expected(vocabulary, kernel, state)
    except LimitExceeded:
        expected = "(it takes too much work to say)"
    except Preempted:
        expected = "(forgotten, as the error was read long after)"
    finally:
        thread.budget = outer
    position = len(vocabulary.decode(before)) + read
    if text:
        known, wrong = text[:read].decode("utf-8", "backslashreplace"), text[read : read + 1]
        fits = f"after {known!r} the byte {wrong!r} cannot follow" if read else f"no word goes on with {wrong!r}"
    elif token in vocabulary.stop:
        fits = "the text is not complete"
    else:
        fits = "special and unused tokens come only where the grammar names them"
    return {
        "what": f"token {token} {token_name(vocabulary, token)} is not allowed",
        "where": f"byte {position}, after {len(before)} tokens",
        "because": fits,
        "instead": f"expected: {expected}",
        "position": position,
        "expected": expected,
    }


def _expected(vocabulary: Vocabulary, kernel: Any, state: int) -> str:
    """Describe the bytes and special tokens that may come in a state."""
    allowed = kernel.next_bytes(state)
    words = [vocabulary.names.get(token, str(token)) for token in sorted(kernel.named_tokens(state))]
    if kernel.is_final(state):
        words.append("the end")
    if len(allowed) > _MANY:
        return ", ".join([*words, f"any of {len(allowed)} bytes"])
    shown = [repr(chr(byte)) if 0x20 < byte < 0x7F else f"byte 0x{byte:02x}" for byte in allowed[:_MOST_SHOWN]]
    return ", ".join([*words, *shown, *(["…"] if len(allowed) > _MOST_SHOWN else [])]) or "nothing"
