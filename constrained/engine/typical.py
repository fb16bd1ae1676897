"""A typical text of a grammar with schemas: its objects have their keys in the order of the schema, short values, and
one item per list.

Models write most objects so: of 2,305 pairs of neighbouring keys in the instances of 300 real schemas 97 % are
neighbours in the schema.  `warm` visits the states along this text before others, as a search that tries choices by
their number would not get far behind the third key.

Bytes are only written where the kernel takes them, so that the text is the beginning of a word, whatever the grammar.
Tested in tests/test_stored.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import islice, pairwise
from typing import Any

_LONGEST = 4_000  # bytes of a text
_LONGEST_VALUE = 100
_DEEPEST = 6  # containers inside containers, before they are closed as soon as they may be
_MOST_PARTS = 20_000  # of the schemas that are looked at
_ENDS = b",}] \n"
_RANK = [(byte in _ENDS, byte in b"\\\t\r", not chr(byte).isalnum(), byte) for byte in range(256)]

Following = Mapping[tuple[str, str], Mapping[str, None]]


def following_keys(sources: Iterator[Any]) -> Following:
    """Return the keys that follow a key in an object, in order, by the key whose value the object (or a list of them)
    is, and the key before; "" stands for none.
    """
    found: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for source in sources:
        todo: list[tuple[str, Any]] = [("", source)]
        for context, part in islice(_growing(todo), _MOST_PARTS):
            if isinstance(part, Mapping):
                for names in _named(part, source):
                    for one, other in pairwise(["", *names]):
                        found[context, one].setdefault(other)
                for keyword, inside in part.items():
                    named = keyword == "properties" and isinstance(inside, Mapping)
                    todo += inside.items() if named else [("", inside)]
            elif isinstance(part, (list, tuple)):
                todo += [("", inside) for inside in part]
    return found


def _growing(parts: list[Any]) -> Iterator[Any]:
    yield from parts


def _named(schema: Mapping[str, Any], source: Any, depth: int = 0) -> Iterator[list[str]]:
    """Yield the names of the objects that a schema describes, or of those in its lists, a few references on."""
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        yield list(map(str, properties))
    if depth < _DEEPEST:
        inner = [_referred(schema.get("$ref"), source), schema.get("items")]
        for keyword in ("allOf", "anyOf", "oneOf"):
            parts = schema.get(keyword)
            inner += parts[:_DEEPEST] if isinstance(parts, list) else []
        for part in inner:
            if isinstance(part, Mapping):
                yield from _named(part, source, depth + 1)


def _referred(pointer: Any, source: Any) -> Any:
    """Return what a reference into the same document means, None if there is nothing such."""
    if not isinstance(pointer, str) or not pointer.startswith("#/"):
        return None
    at = source[0] if isinstance(source, tuple) and source else source
    for step in pointer[2:].split("/"):
        at = at.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(at, Mapping) else None
    return at


class TypicalText:
    """The text while it is written: `step` and `likely` are the kernel's, by state.

    Invariant: `state` is the state behind `text`.
    """

    def __init__(
        self, state: int, step: Callable[[int, bytes], int], likely: Callable[[int, bytes], bytes], following: Following
    ) -> None:
        self.text, self.state = b"", state
        self._step, self._likely, self._following = step, likely, following
        self._open: list[list[str] | None] = []  # of each object the key it belongs to and its last key, None: a list

    def write(self, over: Callable[[], bool]) -> bytes:
        """Return the text, as far as one was found before it was over."""
        key, going = "", self._value("")
        while going and self._open and len(self.text) < _LONGEST and not over():
            top = self._open[-1]
            names = self._following.get((top[0], top[1]), ()) if top is not None else ()
            fresh = self.text.endswith((b"{", b"["))
            if top is None:
                going = self._value(key) if fresh and len(self._open) <= _DEEPEST else self._close(b"]")
                continue
            name = next((name for name in names if self._member(name, fresh=fresh)), None)
            if name is None:
                going = self._close(b"}")
            else:
                top[1] = key = name
                going = self._value(name)
        return self.text

    def _put(self, piece: bytes) -> bool:
        """Write a piece, if it may come."""
        state = self._step(self.state, piece)
        if state <= 0:
            return False
        self.text, self.state = self.text + piece, state
        return True

    def _member(self, name: str, *, fresh: bool) -> bool:
        key = b'"' + name.encode("utf-8", "replace") + b'"'
        commas, colons = ((b"",) if fresh else (b", ", b",")), (b": ", b":")
        return any(self._put(comma + key + colon) for colon in colons for comma in commas)

    def _close(self, bracket: bytes) -> bool:
        del self._open[-1]
        return self._put(bracket)

    def _value(self, key: str) -> bool:
        """Write a value, of a container its beginning."""
        deep = len(self._open) >= _DEEPEST
        if not deep and self._put(b"{"):
            self._open.append([key, ""])
        elif not deep and self._put(b"["):
            self._open.append(None)
        elif self._put(b'"'):
            return self._rest(b'"')
        else:
            return self._rest(b"")
        return True

    def _rest(self, quote: bytes) -> bool:
        """Write the rest of a string, or a number or word."""
        for number in range(_LONGEST_VALUE):
            if quote and self._put(quote):
                return True
            likely = self._likely(self.state, self.text)
            if not quote and number and (not likely or any(byte in _ENDS for byte in likely)):
                return True
            byte = min(likely, key=_RANK.__getitem__, default=None)
            if byte is None or not self._put(bytes((byte,))):
                return False
        return False
