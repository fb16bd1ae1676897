"""Coverage: which rules of a grammar, and which branches of schemas, a corpus of texts has used.

    covered = rule_coverage(grammar, texts)       # rule → what its alternatives are, and how many texts need each
    covered.unused()                              # what no text has shown

**Rules.**  A text *needs* an alternative if it is no word of the grammar without it.  So the question is put to the
engine, not to a parse tree: to constraints without some alternatives.  Where a text can be derived in
two ways it needs neither; those that some derivation could have used are not told from those that none could.  Rules
that readers made for repeats and options count under the rule that they stand in.

**Schemas.**  An instance is walked beside its schema: properties given and left out, values of an enum, alternatives of
``anyOf`` and ``oneOf`` that hold, types among several, empty and filled arrays, each by its JSON pointer.  Whether a
branch holds, `jsonschema` says.  The schemas of tools are covered by the calls that a format's reader finds in turns.

Tests: tests/test_coverage.py.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import chain
from typing import Any

from constrained.engine.compiled import compile_grammar
from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import ConstrainedError, GrammarError, Rejected, SchemaError, VocabularyError, shown
from constrained.formats import ChatFormat
from constrained.formats.tools import read_tools
from constrained.grammar import Grammar
from constrained.grammar.ir import Embedded, Literal, Pattern, Ref, Rule, Symbol
from constrained.work import metered, place, spend, working_on

from .places import Source
from .texts import as_bytes, letters_of, reads, symbols

_BRANCH, _VALID = 10, 100  # units of work: to look at a branch, to ask whether a value is valid
_ALTERNATIVE = 10  # units of work: one in a grammar that is compiled
MOST_DEPTH = 64  # of schemas: a reference may lead back to itself


@dataclass(frozen=True, slots=True)
class Alternative:
    """One alternative of a rule, or one branch of a schema, and how many texts used it."""

    where: str  # "rule tool_call"; a JSON pointer
    what: str
    used: int
    place: str = ""  # file, line and column, where they are known


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a corpus has used."""

    entries: tuple[Alternative, ...]
    texts: int
    rejected: int = 0  # texts that are no words, instances that are not valid: they count for nothing

    def unused(self) -> list[Alternative]:
        return [entry for entry in self.entries if not entry.used]

    @property
    def share(self) -> float:
        """The share of the alternatives that were used."""
        return sum(entry.used > 0 for entry in self.entries) / len(self.entries) if self.entries else 1.0

    def table(self) -> str:
        """Return a line for each alternative, those that nothing has used first."""
        return "\n".join([self._summary(), *(
            f"{entry.used:>6}  {entry.where}: {entry.what}" + (f"  ({entry.place})" if entry.place else "")
            for entry in self._unused_first()
        )])  # fmt: skip

    def _summary(self) -> str:
        share = f"{self.share:.0%} of {len(self.entries)} alternatives" if self.entries else "no alternatives"
        return f"{share}, {self.texts} texts, {self.rejected} rejected"

    def _unused_first(self) -> list[Alternative]:
        return sorted(self.entries, key=lambda entry: entry.used > 0)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr style='background: {'#dfd' if entry.used else '#fdd'}'><td>{entry.used}"
            + "".join(f"<td>{escape(cell)}" for cell in (entry.where, entry.what, entry.place))
            for entry in self._unused_first()
        )
        return f"<p>{self._summary()}</p><table><tr><th>texts<th>where<th>alternative<th>place{rows}</table>"

    def html(self, title: str = "coverage") -> str:
        """Return the table as a page of its own."""
        head = f"<!doctype html><meta charset=utf-8><title>{escape(title)}</title>"
        return f"{head}<style>body {{font-family: sans-serif}} td {{padding: 0 1em}}</style>{self._repr_html_()}\n"


def rule_coverage(
    grammar: Grammar, texts: Iterable[str | bytes], vocabulary: Vocabulary | None = None, source: Source | None = None
) -> Coverage:
    """Return how many texts need each alternative of each rule that has several; with the `source` of the grammar also
    each other rule of its text and each pattern, and where all of them stand.

    Special tokens stand in the texts by name.  Cost: see `_needed`.
    Raises: LimitExceeded: many texts need many alternatives.
    """
    if not isinstance(grammar, Grammar):
        raise GrammarError(f"not a grammar: {shown(grammar)}", instead="Grammar.from_lark(…)")
    if not isinstance(texts, Iterable) or isinstance(texts, (str, bytes)):
        raise ConstrainedError(f"no texts: {shown(texts)}", instead="a list of texts")
    if vocabulary is not None and not isinstance(vocabulary, Vocabulary):
        raise VocabularyError(f"not a vocabulary: {shown(vocabulary)}", instead="Vocabulary.from_tokenizer(tokenizer)")
    special = sorted(set(grammar.specials) | (set(vocabulary.special) if vocabulary is not None else set()))
    read: list[Sequence[int | str]] = [symbols(as_bytes(text), special) for text in texts]
    letters = letters_of(special)
    whole = compile_grammar(grammar, letters)
    with metered(), working_on("alternatives of a grammar"):
        words = [word for word in read if reads(whole, word)]
        parts = _parts(grammar, source)
        used = _needed(grammar, words, letters, [*parts])
    entries = []
    for part, times in used.items():
        where, what = parts[part]
        place = source.place(*part[0]) if source is not None else ""
        what = _WORD.sub(lambda word: source.name(word[0]), what) if source is not None else what
        entries.append(Alternative(where, what, times, place))
    return Coverage(tuple(entries), len(read), len(read) - len(words))


_WORD = re.compile(r"(?:'[^']*'|/[^/]*/)|\w+")
Part = tuple[tuple[str, int], ...]  # alternatives, as (rule, place), that are left out together


def _parts(grammar: Grammar, source: Source | None) -> dict[Part, tuple[str, str]]:
    """Return the parts of a grammar that texts may need, with what they are called and look like."""
    owners, found = _owners(grammar), dict[Part, tuple[str, str]]()
    for name, rule in grammar.rules.items():
        if len(rule.alternatives) > 1 or source is not None and name in source.definitions and name != source.header:
            called = source.name(owners.get(name, name)) if source is not None else owners.get(name, name)
            for at, sequence in enumerate(rule.alternatives):
                found[((name, at),)] = f"rule {called}", _sequence(grammar, owners, sequence, name)
    uses: dict[Pattern, list[tuple[str, int]]] = {}
    for name, rule in grammar.rules.items() if source is not None else ():
        for at, sequence in enumerate(rule.alternatives):
            for symbol in dict.fromkeys(symbol for symbol in sequence if isinstance(symbol, Pattern)):
                uses.setdefault(symbol, []).append((name, at))
    for pattern, places in uses.items():
        found.setdefault(tuple(places), ("terminal", _shown(pattern)))
    return found


def _needed(
    grammar: Grammar, words: list[Sequence[int | str]], letters: Vocabulary, parts: Sequence[Part]
) -> Counter[Part]:
    """Return how many words need each part.

    A word that is read without some parts needs none of them, so they are left out many at a time: by halves.
    Cost: a constraint for each half that a word needs, which the words that need it read.
    """
    found = Counter(dict.fromkeys(parts, 0))
    todo = [(parts, words)] if parts else []
    while todo:
        some, asked = todo.pop()
        lacking = _unread(_without(grammar, [*chain.from_iterable(some)]), asked, letters)
        if len(some) == 1:
            found[some[0]] = len(lacking)
        elif lacking:
            middle = len(some) // 2
            todo += [(some[:middle], lacking), (some[middle:], lacking)]
    return found


def _without(grammar: Grammar, places: Sequence[tuple[str, int]]) -> Grammar:
    """Return a grammar without some alternatives."""
    left_out = set(places)
    spend(sum([_ALTERNATIVE * len(rule.alternatives) for rule in grammar.rules.values()]))
    rules = {
        name: Rule(name, tuple([each for at, each in enumerate(rule.alternatives) if (name, at) not in left_out]))
        for name, rule in grammar.rules.items()
    }
    return replace(grammar, rules=rules)


def _unread(
    grammar: Grammar, words: list[Sequence[int | str]], letters: Vocabulary
) -> list[Sequence[int | str]]:
    """Return the words that are none of a grammar."""
    try:
        constraint = compile_grammar(grammar, letters)
    except GrammarError:  # it has no word at all
        return words
    return [word for word in words if not reads(constraint, word)]


def _owners(grammar: Grammar) -> dict[str, str]:
    """Return which rules readers made for repeats, groups and options, each with the rule that it stands in."""
    found: dict[str, str] = {}
    todo = [(name, name) for name in grammar.rules]
    while todo:
        name, owner = todo.pop()
        helper = re.compile(rf"_{re.escape(owner.strip('_').lower())}_[0-9]+")
        for symbol in chain.from_iterable(grammar.rules[name].alternatives):
            if isinstance(symbol, Ref) and symbol.rule not in found and helper.fullmatch(symbol.rule):
                found[symbol.rule] = owner
                todo.append((symbol.rule, owner))
    return found


def _sequence(grammar: Grammar, owners: dict[str, str], parts: Sequence[Symbol], rule: str) -> str:
    """Return an alternative of a rule as a reader of the grammar would write it, in short; … is what a repeat had
    before.
    """
    shown_parts = []
    for part in parts:
        if not isinstance(part, Ref):
            shown_parts.append(_shown(part))
        elif part.rule == rule and rule in owners:
            shown_parts.append("…")
        else:
            shown_parts.append(_group(grammar, owners, part.rule) if part.rule in owners else part.rule)
    return _short(" ".join(shown_parts)) or "(nothing)"


def _group(grammar: Grammar, owners: dict[str, str], rule: str) -> str:
    """Return a repeat, a group or an option as it was written, in short."""
    alternatives = grammar.rules[rule].alternatives
    again = any(Ref(rule) in parts for parts in alternatives)
    operator = ("*" if () in alternatives else "+") if again else "?" if () in alternatives else ""
    bodies = [tuple([part for part in parts if part != Ref(rule)]) for parts in alternatives]
    found = dict.fromkeys(_sequence(grammar, owners, parts, rule) for parts in bodies if parts)
    return _short(f"({' | '.join(found)}){operator}")


def _short(text: str) -> str:
    return text if len(text) <= 100 else text[:99] + "…"


def _shown(part: Symbol) -> str:
    """Return a terminal as a reader of the grammar would write it, in short."""
    if isinstance(part, Literal):
        return repr(part.text if len(part.text) <= 40 else part.text[:39] + "…")
    if isinstance(part, Pattern):
        return f"/{part.source if len(part.source) <= 40 else part.source[:39] + '…'}/"
    if isinstance(part, Ref):
        return part.rule
    return f"<{part.name}>" if isinstance(part, Embedded) else part.name


def call_coverage(chat: ChatFormat, turns: Iterable[str], tools: object) -> Coverage:
    """Return how many calls in turns of a format used each branch of their tools' schemas: see `schema_coverage`.

    A turn that the format's strict reader does not read is rejected; a call of a tool that is none of `tools`, such as
    a code interpreter of the format itself, counts for none.
    Raises: SchemaError: `tools` have no known shape.
    """
    schemas = {tool.name: tool.parameters for tool in read_tools(tools)}
    called: dict[str, list[Any]] = {name: [] for name in schemas}
    texts = rejected = 0
    for turn in turns:
        texts += 1
        try:
            calls = chat.parse(turn, tools, strict=True).tool_calls
        except Rejected:
            rejected += 1
            continue
        for call in calls:
            called.get(call.name, []).append(call.arguments)
    entries = [
        replace(entry, where=f"tool {name} {entry.where}")
        for name, schema in schemas.items()
        for entry in schema_coverage(schema, called[name]).entries
    ]
    return Coverage(tuple(entries), texts, rejected)


def schema_coverage(schema: Any, instances: Iterable[Any], places: Mapping[str, str] | None = None) -> Coverage:
    """Return how many instances used each branch of a schema; `places`: where the values stand, by JSON pointer.

    Branches: a declared property, given or left out; a value of an enum; a member of ``anyOf`` or ``oneOf``; one of
    several types; ``if``, then or else; an array, empty or not.  Followed are properties, items, ``prefixItems``,
    ``allOf`` and references within the document.  An instance that is not valid counts for nothing.
    """
    if not isinstance(instances, Iterable):
        raise ConstrainedError(f"no instances: {shown(instances)}", instead="a list of JSON values")
    with metered(), working_on("branches of a schema"):
        return _covered(schema, list(instances), places or {})


def _covered(schema: Any, listed: list[Any], places: Mapping[str, str]) -> Coverage:
    used: Counter[tuple[str, str]] = Counter()
    known: dict[tuple[str, str], None] = {}
    for branch, _ in _branches(schema, schema, [], "#", 0, set()):
        known[branch] = None
    valid = [instance for instance in listed if _holds(schema, schema, instance)]
    for instance in valid:
        used.update({branch for branch, holds in _branches(schema, schema, [instance], "#", 0, set()) if holds})
    entries = tuple(
        Alternative(where, what, used[where, what], places.get(where, ""))
        for where, what in dict.fromkeys([*known, *used])
    )
    return Coverage(entries, len(listed), len(listed) - len(valid))


def lines_of(text: str) -> dict[str, int]:
    """Return the line in which each value of a JSON text begins, by its pointer: "#/properties/a".

    >>> lines_of('{\\n"a": [1,\\n2]}')
    {'#': 1, '#/a': 2, '#/a/0': 2, '#/a/1': 3}
    """
    found: dict[str, int] = {}
    stack: list[list[Any]] = []  # of each list or object that is open: its pointer, and the key or number that comes
    where, line = "#", 1
    for match in _JSON_PART.finditer(text):
        word = match.group()
        if word in "}]":
            stack.pop()
        elif word == ",":
            stack[-1][1] = stack[-1][1] + 1 if isinstance(stack[-1][1], int) else None
        elif stack and stack[-1][1] is None and word[0] == '"':
            stack[-1][1] = json.loads(word).replace("~", "~0").replace("/", "~1")
        elif word.isspace():
            line += word.count("\n")
        elif word != ":":
            where = f"{stack[-1][0]}/{stack[-1][1]}" if stack else "#"
            found[where] = line
            if word in "{[":
                stack.append([where, None if word == "{" else 0])
    return found


_JSON_PART = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|\s+|[^\s{}\[\],:"]+')


def _branches(
    root: Any, schema: Any, values: list[Any], where: str, depth: int, above: set[str]
) -> Iterator[tuple[tuple[str, str], bool]]:
    """Yield the branches of a schema, and whether one of the values that stand here used each; without values, all that
    are declared.
    """
    spend(_BRANCH)
    if not isinstance(schema, dict) or depth > MOST_DEPTH:
        return
    target = schema.get("$ref")
    if isinstance(target, str) and target.startswith("#") and (values or target not in above):
        yield from _branches(root, _at(root, target), values, target, depth + 1, above | {target})
    for at, each in enumerate(_listed(schema, "enum")):
        spend(1 + len(values))
        yield (where, f"enum {at}: {each!r:.40}"), any(_same(value, each) for value in values)
    if isinstance(schema.get("type"), list):
        for kind in schema["type"]:
            yield (where, f"type {kind}"), any(_holds(root, {"type": kind}, value) for value in values)
    yield from _alternatives(root, schema, values, where, depth, above)
    yield from _members(root, schema, values, where, depth, above)


def _alternatives(
    root: Any, schema: dict[str, Any], values: list[Any], where: str, depth: int, above: set[str]
) -> Iterator[tuple[tuple[str, str], bool]]:
    for keyword in ("anyOf", "oneOf", "allOf"):
        for at, branch in enumerate(_listed(schema, keyword)):
            fitting = [value for value in values if keyword == "allOf" or _holds(root, branch, value)]
            if keyword != "allOf":
                yield (f"{where}/{keyword}/{at}", "holds"), bool(fitting)
            if fitting or not values:
                yield from _branches(root, branch, fitting, f"{where}/{keyword}/{at}", depth + 1, above)
    if "if" in schema:
        for keyword, wanted in (("then", True), ("else", False)):
            fitting = [value for value in values if _holds(root, schema["if"], value) == wanted]
            yield (f"{where}/{keyword}", "taken"), bool(fitting)
            if fitting or not values:
                yield from _branches(root, schema.get(keyword), fitting, f"{where}/{keyword}", depth + 1, above)


def _members(
    root: Any, schema: dict[str, Any], values: list[Any], where: str, depth: int, above: set[str]
) -> Iterator[tuple[tuple[str, str], bool]]:
    objects, arrays = (
        [value for value in values if isinstance(value, dict)],
        [value for value in values if isinstance(value, list)],
    )
    for name, inner in _named(schema, "properties").items():
        spend(2 + len(objects))
        place = f"{where}/properties/{str(name).replace('~', '~0').replace('/', '~1')}"
        given = [value[name] for value in objects if name in value]
        yield (place, "given"), bool(given)
        if name not in _listed(schema, "required"):
            yield (place, "left out"), any(name not in value for value in objects)
        if given or not values:
            yield from _branches(root, inner, given, place, depth + 1, above)
    prefix = _listed(schema, "prefixItems")
    for at, inner in enumerate(prefix):
        yield from _branches(
            root,
            inner,
            [value[at] for value in arrays if len(value) > at],
            f"{where}/prefixItems/{at}",
            depth + 1,
            above,
        )
    if "items" in schema:
        inside = [item for value in arrays for item in value[len(prefix) :]]
        yield (f"{where}/items", "filled"), bool(inside)
        yield (f"{where}/items", "empty"), any(len(value) <= len(prefix) for value in arrays)
        if inside or not values:
            yield from _branches(root, schema["items"], inside, f"{where}/items", depth + 1, above)


def _holds(root: Any, schema: Any, value: Any) -> bool:
    """Say whether a value is valid; references of the branch are those of the whole document."""
    import jsonschema

    spend(_VALID)
    defined = {
        keyword: root[keyword]
        for keyword in ("$defs", "definitions", "$schema")
        if isinstance(root, dict) and keyword in root
    }
    whole = {**defined, **schema} if isinstance(schema, dict) else schema
    try:
        kind = jsonschema.validators.validator_for(whole, default=jsonschema.Draft202012Validator)
        return bool(kind(whole).is_valid(value))
    except Exception as error:  # whatever it makes of a schema that is none, or that leads to itself
        because = f"{type(error).__name__}: {error}"[:200]
        raise SchemaError("cannot say what holds", where=place(), because=f"jsonschema fails ({because})") from error


def _listed(schema: dict[str, Any], keyword: str) -> Sequence[Any]:
    """Return the list of a keyword; no list is none."""
    found = schema.get(keyword)
    return found if isinstance(found, list) else ()


def _named(schema: dict[str, Any], keyword: str) -> dict[str, Any]:
    found = schema.get(keyword)
    return found if isinstance(found, dict) else {}


def _same(one: Any, two: Any) -> bool:
    return one == two and isinstance(one, bool) == isinstance(two, bool)


def _at(root: Any, pointer: str) -> Any:
    """Return what a reference within the document leads to; {} where it leads nowhere."""
    found = root
    for part in pointer.lstrip("#").split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list):
            found = dict(enumerate(found)).get(int(part), {}) if part.isdigit() else {}
        else:
            found = found.get(part, {}) if isinstance(found, dict) else {}
    return found
