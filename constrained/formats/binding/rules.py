"""Surgery on the rules of a format: drop, replace, repeat, flatten, prune.

A format's variants are small edits of one grammar.  They work on a plain dict of alternatives, because a `Grammar`
checks itself whenever one is made, and binding 500 tools should make one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from constrained.grammar import Literal, Pattern, Ref, Rule, Special, Symbol
from constrained.regex import Expr, optional

Sequence = tuple[Symbol, ...]
Alternatives = dict[str, tuple[Sequence, ...]]

_WRITTEN_OUT = 16  # repeats up to here


def alternatives_of(rules: Mapping[str, Rule]) -> Alternatives:
    """Return rules as a dict of their alternatives."""
    return {name: rule.alternatives for name, rule in rules.items()}


def with_empty_terminals(rules: Alternatives) -> Alternatives:
    """Return rules in which one that is a terminal, or nothing, is a terminal that may be empty.

    Lark has no such terminals, so a file says ``thought: THOUGHT?``.
    """
    found = dict(rules)
    for name, sequences in rules.items():
        match sequences:
            case ((Ref(helper),),) if helper in rules:
                match sorted(rules[helper], key=len):
                    case [(), (Pattern(Expr() as language, source),)]:
                        found[name] = ((Pattern(optional(language), f"(?:{source})?"),),)
    return found


def right_recursive(rules: Alternatives) -> Alternatives:
    """Return rules of the same language in which no rule begins with itself, as those do that Lark's repeats turn into.

    >>> a, x, y = Ref("a"), Literal("x"), Literal("y")
    >>> list(right_recursive({"a": ((a, x), (y,))}))
    ['a', 'a, again']
    """
    found: Alternatives = {}
    for name, sequences in rules.items():
        again = [sequence[1:] for sequence in sequences if sequence[:1] == (Ref(name),) and len(sequence) > 1]
        if not again:
            found[name] = sequences
            continue
        more = f"{name}, again"
        found[name] = tuple((*sequence, Ref(more)) for sequence in sequences if sequence[:1] != (Ref(name),))
        found[more] = ((), *((*rest, Ref(more)) for rest in again))
    return found


def repeat_at_most(rules: Alternatives, rule: str, item: str, most: int) -> None:
    """Let `rule` derive up to `most` times `item`, with some 4·log2(most) rules, so that every number of items has one
    derivation.
    """
    if most <= _WRITTEN_OUT:
        rules[rule] = tuple((Ref(item),) * count for count in range(most + 1))
    elif most % 2 == 0:
        repeat_at_most(rules, f"{rule}_{most - 1}", item, most - 1)
        rules[rule] = ((), (Ref(item), Ref(f"{rule}_{most - 1}")))
    else:
        half = most // 2
        repeat_at_most(rules, f"{rule}_{half}", item, half)
        rules[rule] = ((Ref(f"{rule}_{half}"),), (*_exactly(rules, item, half + 1), Ref(f"{rule}_{half}")))


def _exactly(rules: Alternatives, item: str, count: int) -> Sequence:
    """Return what derives `count` times `item`."""
    if count <= _WRITTEN_OUT:
        return (Ref(item),) * count
    half = f"{item}_{count // 2}_times"
    rules[half] = (_exactly(rules, item, count // 2),)
    return (Ref(half), Ref(half), *(Ref(item),) * (count % 2))


def flatten(rules: Alternatives, rule: str, slots: Collection[str]) -> list[Sequence]:
    """Return what `rule` derives as sequences in which the slots stand at the top.

    Rules that cannot reach a slot stay references; those that can must not recurse, as a call has each slot once.
    """
    reaching = _reaching(rules, slots)

    def expand(sequence: Sequence) -> Iterator[Sequence]:
        for at, symbol in enumerate(sequence):
            if isinstance(symbol, Ref) and symbol.rule in reaching:
                for inner in rules[symbol.rule]:
                    yield from expand((*sequence[:at], *inner, *sequence[at + 1 :]))
                return
        yield sequence

    return list(expand((Ref(rule),)))


def _reaching(rules: Alternatives, slots: Collection[str]) -> set[str]:
    found: set[str] = set()
    while True:
        new = {
            name for name, sequences in rules.items() if name not in found and name not in slots
            and any(
                isinstance(s, Ref) and (s.rule in slots or s.rule in found) for sequence in sequences for s in sequence
            )
        }  # fmt: skip
        if not new:
            return found
        found |= new


def reached(rules: Alternatives, start: Iterable[str]) -> set[str]:
    """Return the rules that some rules use, themselves included; names without a rule are left out."""
    found, work = set[str](), [name for name in start if name in rules]
    while work:
        name = work.pop()
        if name not in found:
            found.add(name)
            work += [symbol.rule for sequence in rules[name] for symbol in sequence if isinstance(symbol, Ref)]
    return found


def texts_in(sequence: Sequence) -> list[str]:
    """Return the literals and special tokens that a sequence writes."""
    return [
        symbol.text if isinstance(symbol, Literal) else symbol.name
        for symbol in sequence
        if isinstance(symbol, (Literal, Special))
    ]


def answering(rules: Alternatives, response: Symbol) -> Alternatives:
    """Return the rules in which `answer` says `response` in place of ``content``; everything else may still say
    anything.
    """
    reaching, copied = _reaching(rules, {"content"}), dict(rules)

    def copy(sequence: Sequence) -> Sequence:
        return tuple(response if symbol == Ref("content") else Ref(f"{symbol.rule}, answering")
                     if isinstance(symbol, Ref) and symbol.rule in reaching else symbol for symbol in sequence)

    for name in reaching:
        copied[f"{name}, answering"] = tuple(copy(sequence) for sequence in rules[name])
    copied["answer"] = copied["answer, answering"] if "answer" in reaching else ()
    return copied


def join_literals(sequence: Iterable[Symbol], specials: Collection[str]) -> Sequence:
    """Return the sequence with neighbouring texts as one; special tokens stay apart."""
    joined: list[Symbol] = []
    for symbol in sequence:
        last = joined[-1] if joined else None
        if (isinstance(symbol, Literal) and isinstance(last, Literal)
                and symbol.text not in specials and last.text not in specials):
            joined[-1] = Literal(last.text + symbol.text)
        else:
            joined.append(symbol)
    return tuple(joined)


def prune(rules: Alternatives, start: str) -> Alternatives:
    """Return the rules that `start` reaches, without alternatives that need a rule which derives nothing; {} if `start`
    is one.
    """
    alive: set[str] = set()
    growing = True
    while growing:
        growing = False
        for name, sequences in rules.items():
            if name not in alive and any(_lives(sequence, alive) for sequence in sequences):
                alive.add(name)
                growing = True
    kept: Alternatives = {}
    work = [start] if start in alive else []
    while work:
        name = work.pop()
        if name not in kept:
            kept[name] = tuple(sequence for sequence in rules[name] if _lives(sequence, alive))
            work += [symbol.rule for sequence in kept[name] for symbol in sequence if isinstance(symbol, Ref)]
    return kept


def _lives(sequence: Sequence, alive: Collection[str]) -> bool:
    return all(symbol.rule in alive for symbol in sequence if isinstance(symbol, Ref))
