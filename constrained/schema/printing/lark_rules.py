"""The machine of a schema as Lark rules.

Generic: a machine state becomes a rule, its edges alternatives, a call the callee before what follows it; a text
becomes one terminal where its language is a counted class of characters, else a rule per state of its automaton.  So
everything that has finitely many states is printed exactly.  Three things have not, or too many, and are printed with a
comment that says so:

- keys that are not named: that none comes twice is left out;
- numbers in every spelling, unless all numbers are allowed: printed in canonical spelling;
- strings with bounds: that they spell no marker is left out.

Objects in any order have a state for each set of written keys.  Past `MOST_RULES` there is an error that names the
remedy.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from json.encoder import encode_basestring
from typing import TypeAlias

from constrained.errors import GrammarError
from constrained.machine import END, Bytes, Dispatch, Edges, Language, LiteralSet, MarkerSafe, Quoting, State, Text
from constrained.regex import ANY_TEXT, Expr, complement, concat, intersect, is_empty, literal, markers_of, matches
from constrained.regex.markers import ESCAPED, Guarded
from constrained.regex.runs import ClosedRun
from constrained.schema.key_masks import bits
from constrained.schema.machines.texts import cut
from constrained.schema.numeric.language import CANONICAL_NUMBERS, NumberTexts, number_language
from constrained.schema.printing.lark_characters import Ranges, Way, char_class, fixed, ways
from constrained.schema.printing.lark_strings import closed, strings
from constrained.schema.values import NumberRange
from constrained.work import spend

MOST_RULES = 5_000
MOST_SYMBOLS = 16_000  # once the rules that are used once have gone into their places
_SHORT = 20  # characters of a pattern that is written where it stands
_LONG = 200  # characters of one that is repeated as a rule, which the library and we read in a fraction of the time

_NUMBER = r"/-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/"
_INTEGER = r"/0|-?[1-9][0-9]*/"
_WHOLE = NumberRange(integer=True)
_REPEATS = "// wider: keys that are not named may come twice, and so may the items of uniqueItems"
_CANONICAL = "// narrower: numbers with bounds are printed in their canonical spelling"
MARKERS = "// wider: strings may spell markers of the format"
"""Comments, once per embedded schema."""


_WRITERS: dict[Quoting, Callable[[str], str]] = {  # the quotings that write a text in one way only
    Quoting.RAW: str,
    Quoting.JSON_CANONICAL: encode_basestring,
    Quoting.PYTHON_CANONICAL: repr,
}


class _Fixed(str):
    """A symbol that is a plain text, in quotes: two in a row are one."""

    @classmethod
    def of(cls, text: str) -> _Fixed:
        return cls(_quoted(text))


_Sequence: TypeAlias = tuple[str, ...]  # symbols: texts, patterns and names


class LarkRules:
    """The rules of one schema."""

    def __init__(self, prefix: str, *, lookahead: bool = True) -> None:
        self._prefix, self._lookahead = prefix, lookahead
        self._names: dict[object, str] = {}
        self._queue: list[tuple[str, Callable[[], list[_Sequence]]]] = []
        self._terminals: dict[str, str] = {}  # long patterns -> their names
        self._notes, self._long = dict[str, None](), 0  # characters of the terminals

    def write(self, start: State) -> list[str]:
        """Return the definitions; the first one defines the prefix.

        Raises: GrammarError: there are too many.
        """
        self._name("start", lambda: self._alternatives(start), self._prefix)
        bodies: dict[str, list[_Sequence]] = {}
        for name, body in self._queue:
            spend(100)
            bodies[name] = list(dict.fromkeys(body()))
        placed = _put_in_place(bodies, self._prefix)
        size = (
            sum(3 + sum(1 + len(sequence) for sequence in alternatives) for alternatives in placed.values())
            + self._long // 8
        )
        _check_size(size)
        rules = [f"{name}: " + "\n    | ".join(map(" ".join, alternatives)) for name, alternatives in placed.items()]
        return [*rules, *(f"{name}: /{pattern}/" for pattern, name in self._terminals.items()), *self._notes]

    def _name(self, key: object, body: Callable[[], list[_Sequence]], name: str | None = None) -> str:
        """Return the name of a rule, which is written when its turn comes."""
        known = self._names.get(key)
        if known is None:
            known = self._names[key] = name or f"{self._prefix}_{len(self._names)}"
            self._queue.append((known, body))
            if len(self._queue) > MOST_RULES:
                raise _too_large(f"more than {MOST_RULES:,} Lark rules", "that is too long to read")
        return known

    # -- machine states ------------------------------------------------------------------------------------------------

    def _alternatives(self, state: State) -> list[_Sequence]:
        if isinstance(state, (Text, Bytes)):
            return [self._reading(state)]
        edges = state.expand()
        found = [self._reading(target, bytes([low])) for low, _, target in edges.ranges]
        for callee, after in edges.calls:
            if not isinstance(after, Dispatch):
                if (run := self._closed(callee, after)) is not None:
                    found.append(run)
                    continue
                found.append((*self._reading(callee), *self._reading(after)))
                continue
            assert isinstance(callee, Text)
            found += self._dispatched(callee, after)
        found += [(_quoted(name), *self._reading(target)) for name, target in edges.tokens]
        return [*found, ()] if edges.accepting else found

    def _dispatched(self, callee: Text, after: Dispatch) -> list[_Sequence]:
        language = callee.language
        if isinstance(language, LiteralSet) and not after.records:
            everything = (1 << len(language.texts)) - 1
            followed = ((label, after.after(label)) for label in bits(everything & ~language.excluded))
            return [
                (self._literal(callee.quoting, language.texts[label]), *self._reading(state))
                for label, state in followed
                if state is not None
            ]
        self._notes[_REPEATS] = None
        found: list[_Sequence] = []
        if isinstance(language, Expr) and after.special:
            apart = {text: after.after_text(text) for text in sorted(after.special) if matches(language, text)}
            found = [
                (self._literal(callee.quoting, text), *self._reading(state))
                for text, state in apart.items()
                if state is not None
            ]
            rest = cut(language, list(apart))
            if rest is None:
                return found
            language = rest
        state = after.after_text(None)
        if state is None:
            raise GrammarError(
                "cannot print the schema as Lark",
                because="under uniqueItems, which numbers may follow depends on the values of those before",
                instead="the schema without uniqueItems, or items that are texts",
            )
        return [*found, (*self._reading(Text(callee.quoting, language)), *self._reading(state))]

    def _reading(self, state: State, fixed: bytes = b"") -> _Sequence:
        """Return the symbols that read `fixed` and then what a state reads: fixed bytes in place, everything else by
        name.
        """
        while isinstance(state, Bytes):
            fixed, state = fixed + state.data, state.then
        first = (_Fixed.of(fixed.decode()),) if fixed else ()
        if isinstance(state, Text):
            return (*first, *self._text(state))
        if state is END:
            return first
        rule = state
        return (*first, self._name(rule, lambda: self._alternatives(rule)))

    # -- texts ---------------------------------------------------------------------------------------------------------

    def _text(self, text: Text) -> _Sequence:
        language = text.language
        if isinstance(language, NumberTexts):
            return (self._number(language),)
        if isinstance(language, LiteralSet):
            members = [member for label, member in enumerate(language.texts) if not language.excluded >> label & 1]
            return (self._name(text, lambda: [(self._literal(text.quoting, member),) for member in members]),)
        patterns = self._guarded(text.quoting, language)
        if patterns is not None:
            return (patterns[0],) if len(patterns) == 1 else (self._name(text, lambda: [(part,) for part in patterns]),)
        options = _variants(text.quoting, language)
        if len(options) == 1 and (symbols := self._counted(*options[0])) is not None:
            return symbols
        return (self._name(text, lambda: [self._way(way, part) for way, part in options]),)

    def _guarded(self, quoting: Quoting | MarkerSafe, language: Language) -> list[str] | None:
        """Return terminals that read a counted class of characters, between quotes and without markers."""
        if not self._lookahead or not isinstance(language, Expr) or language.counted is None:
            return None
        if not isinstance(quoting, MarkerSafe) and quoting is not Quoting.PYTHON_CANONICAL:
            return None
        char, least, most = language.counted
        patterns = strings(quoting, tuple((low, high) for low, high, _ in char.edges()), least, most)
        return None if patterns is None else [self._pattern(pattern) for pattern in patterns]

    def _closed(self, text: State, after: State) -> _Sequence | None:
        """Return a run of a character without markers and what closes it, as one terminal; None for other texts."""
        if not self._lookahead or not isinstance(text, Text) or text.quoting is not Quoting.RAW:
            return None
        if not isinstance(text.language, Expr):
            return None
        before, then = "", after
        while isinstance(then, Bytes):
            before, then = before + then.data.decode(), then.then
        options = [(before, False, (), then)]
        edges = Edges() if isinstance(then, Text) else then.expand()
        if len(edges.tokens) == 1 and edges == Edges(tokens=edges.tokens):  # of which no terminal can be a part
            token, target = edges.tokens[0]
            options.append((before + token, True, (*([_Fixed.of(before)] if before else ()), _quoted(token)), target))
        for closing, ahead, symbols, target in options:
            run = ClosedRun.of_language(text.language, closing) if closing else None
            if run is not None and (pattern := closed(run, ahead=ahead)) is not None:
                return (self._pattern(pattern), *symbols, *self._reading(target))
        return None

    def _way(self, way: Way, language: Language) -> _Sequence:
        symbols = self._counted(way, language)
        if symbols is not None:
            return symbols
        quote = (_Fixed.of(way.quote),) if way.quote else ()
        read = Guarded(language, markers_of(way.markers), way.raw) if way.markers else language
        return (*quote, self._spelled(way, read))

    def _spelled(self, way: Way, language: Language) -> str:
        """Return the rule of the rest of a text and its closing quote."""
        def body() -> list[_Sequence]:
            found: list[_Sequence] = [
                (self._pattern(part), self._spelled(way, target))
                for target, ranges in _by_target(language)
                for part in _parts(way, ranges)
            ]
            if not language.accepts:
                return found
            closing = way.skipped + way.quote
            end = self._pattern(closing) if way.skipped else _Fixed.of(closing)
            return [*found, (end,) if closing else ()]

        return self._name((way, language), body)

    def _counted(self, way: Way, language: Language) -> _Sequence | None:
        """Return a terminal, or one between quotes, if the language is a repeated class of characters that the way
        writes in one piece.
        """
        if not isinstance(language, Expr) or language.counted is None:
            return None
        char, least, most = language.counted
        ranges = tuple((low, high) for low, high, _ in char.edges())
        if not way.quote and least == 0:
            return None
        count = (
            "*"
            if (least, most) == (0, None)
            else ""
            if (least, most) == (1, 1)
            else f"{{{least},{'' if most is None else most}}}"
        )
        if way.markers and count == "*":
            return None
        if way.markers:
            self._notes[MARKERS] = None
        spelled = way.loosely(ranges)
        if len(spelled) > _LONG and not way.skipped and way.quote:
            names, quote = [self._pattern(way.loosely(part)) for part in way.apart(ranges)], _Fixed.of(way.quote)
            name = names[0] if len(names) == 1 else f"({' | '.join(names)})"
            return (
                quote,
                f"{name}~{least}..{most}" if most is not None else f"{name}~{least} {name}*" if least else f"{name}*",
                quote,
            )
        char_pattern = f"(?:{spelled})" if way.skipped else spelled
        return (self._pattern(f"{way.quote}{char_pattern}{count}{way.skipped}{way.quote}"),)

    def _pattern(self, pattern: str) -> str:
        """Return a terminal; what is long is written once and has a name."""
        if len(pattern) <= _SHORT:
            return f"/{pattern}/"
        known = self._terminals.get(pattern)
        if known is None:
            known = self._terminals[pattern] = f"{self._prefix.upper()}_T{len(self._terminals)}"
            self._long += len(pattern)
            _check_size(self._long // 8)
        return known

    def _literal(self, quoting: Quoting | MarkerSafe, text: str) -> str:
        if isinstance(quoting, MarkerSafe):
            spelled = _WRITERS[quoting.base](text)
            way = next(way for way in ways(quoting) if way.quote == spelled[0])
            inner = markers_of(quoting.markers).escaped(spelled[1:-1], lambda char: way.escape(ord(char)))
            return _Fixed.of(spelled[0] + inner + spelled[-1])
        if quoting in _WRITERS:
            return _Fixed.of(_WRITERS[quoting](text))
        options = [
            way.quote + "".join(way.spell(((ord(char), ord(char)),)) for char in text) + way.skipped + way.quote
            for way in ways(quoting)
        ]
        return self._pattern("|".join(options))

    def _number(self, numbers: NumberTexts) -> str:
        ranges, spelling = numbers.ranges, numbers.spelling
        if spelling.canonical:
            return _INTEGER if ranges == (_WHOLE,) else self._automaton(numbers)
        if ranges == (NumberRange(),) and not spelling.bare_point:
            return _NUMBER
        self._notes[_CANONICAL] = None
        spend(2 * len(ranges))  # they are hashed
        return self._automaton(number_language(ranges, CANONICAL_NUMBERS))

    def _automaton(self, language: Language) -> str:
        def body() -> list[_Sequence]:
            found: list[_Sequence] = [
                (self._pattern(char_class(ranges)), *((self._automaton(target),) if target.edges() else ()))
                for target, ranges in _by_target(language)]
            return [*found, ()] if language.accepts else found

        return self._name(language, body)


def _parts(way: Way, ranges: Ranges) -> list[str]:
    """Return patterns of the spellings of letters: code points or, of guarded languages, ones escaped for a marker."""
    raw = tuple((low, high) for low, high in ranges if low < ESCAPED)
    found = [way.spell(part) for part in way.apart(raw)] if raw else []
    return found + [fixed(way.escape(low - ESCAPED)) for low, _ in ranges if low >= ESCAPED]


def _check_size(size: int) -> None:
    if size > MOST_SYMBOLS:
        raise _too_large(f"{size:,} Lark symbols", f"more than {MOST_SYMBOLS:,} take a second or longer to read")


def _too_large(size: str, because: str) -> GrammarError:
    return GrammarError(
        f"schema needs {size}",
        because=f"{because}; objects in any order have a rule for each set of keys, counted items one for each number",
        instead='property_order="schema", whitespace="canonical" and smaller bounds',
    )


def _put_in_place(bodies: dict[str, list[_Sequence]], start: str) -> dict[str, list[_Sequence]]:
    """Return rules with those that have one alternative, and are used in one place, written there."""
    uses = Counter(symbol for alternatives in bodies.values() for sequence in alternatives for symbol in sequence)
    single = {
        name for name, alternatives in bodies.items() if len(alternatives) == 1 and uses[name] == 1 and name != start
    }

    def whole(sequence: _Sequence) -> _Sequence:
        found: list[str] = []
        rest = list(reversed(sequence))
        while rest:
            symbol = rest.pop()
            if symbol in single:
                rest += reversed(bodies[symbol][0])
            elif isinstance(symbol, _Fixed) and found and isinstance(found[-1], _Fixed):
                found.append(_Fixed(found.pop()[:-1] + symbol[1:]))
            else:
                found.append(symbol)
        return tuple(found)

    return {
        name: [whole(sequence) for sequence in alternatives]
        for name, alternatives in bodies.items()
        if name not in single
    }


def _by_target(language: Language) -> Iterable[tuple[Language, Ranges]]:
    """Return what follows the first character of a text, and the characters that it follows."""
    found: dict[Language, list[tuple[int, int]]] = {}
    edges = language.edges()
    spend(len(edges))
    for low, high, target in edges:
        found.setdefault(target, []).append((low, high))
    return ((target, tuple(ranges)) for target, ranges in found.items())


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _variants(quoting: Quoting | MarkerSafe, language: Language) -> list[tuple[Way, Language]]:
    """Return the ways to write the texts of a language; repr() takes double quotes for texts with ' and without "."""
    options = ways(quoting)
    if Quoting(int(quoting)) is not Quoting.PYTHON_CANONICAL:
        return [(way, language) for way in options]
    assert isinstance(language, Expr)
    apostrophe, quotation = (concat(ANY_TEXT, literal(char), ANY_TEXT) for char in "'\"")
    doubled = intersect(apostrophe, complement(quotation))
    parts = (intersect(language, complement(doubled)), intersect(language, doubled))
    return [(way, part) for way, part in zip(options, parts, strict=True) if not is_empty(part)]

