"""Bytes that only someone with the key could have put behind a text: HMAC-SHA-256 over both.

    text            without a zero byte, as JSON is
    MARK            begins with a zero byte
    signature       32 bytes, of all the others
    what is signed

Whoever knows the key can make others believe anything, so it is as secret as what it protects is dear; it is not
written anywhere.  A signature does not say where a file belongs: who may exchange one for another that was signed with
the same key is found out by the `fingerprint` of the grammar.

Refused: blake2b, which takes twice as long where the processor has instructions for SHA-256; public keys, which the
standard library does not have.
Tested in tests/test_saved_states.py.
"""

from __future__ import annotations

import hmac

from constrained.errors import ConstrainedError, shown

MARK = b"\0constrained states 1\n"
LEAST_KEY = 16  # bytes
_SIGNATURE = 32  # bytes
ROOM = len(MARK) + _SIGNATURE  # that a signature takes


def sealed(text: bytes, body: bytes, key: bytes) -> list[bytes]:
    """Return the parts of a file: a text, which others can read without a key, and what is signed with it.

    Raises: ConstrainedError: no key.
    """
    check_key(key)
    return [text, MARK, hmac.digest(key, text + MARK + body, "sha256"), body]


def text_of(data: bytes) -> bytes:
    """Return the text at the beginning of a file, signed or not."""
    return data.partition(MARK[:1])[0]


def opened(path: object, data: bytes, key: bytes) -> bytes:
    """Return what is signed behind the text of a file.

    Raises: ConstrainedError: no key, no signature, or one that was made with another key or of other bytes.
    """
    check_key(key)
    text = text_of(data)
    begin = len(text) + len(MARK)
    end = begin + _SIGNATURE
    if data[len(text) : begin] != MARK or len(data) < end:
        raise ConstrainedError(
            "the saved constraint is not signed", where=shown(path, 200), because="it was saved without a key, or cut",
            instead="load it without a key, as a stranger's; or save it with one")
    body = data[end:]
    if not hmac.compare_digest(hmac.digest(key, data[:begin] + body, "sha256"), data[begin:end]):
        raise ConstrainedError(
            "the signature of the saved constraint is wrong", where=shown(path, 200),
            because="it was saved with another key, or changed since",
            instead="load it without a key, as a stranger's; or save it again")
    return body


def check_key(key: object) -> None:
    """Raises: ConstrainedError: something is no key."""
    if type(key) is not bytes or len(key) < LEAST_KEY:
        because = f"it has {len(key)} bytes" if type(key) is bytes else f"it is a {type(key).__name__}"
        raise ConstrainedError(
            "no key to sign with", because=because, instead=f"{LEAST_KEY} bytes or more: secrets.token_bytes(32)")
