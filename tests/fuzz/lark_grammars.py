r"""Random small Lark grammars of every construct: what we take is what the `lark` library takes.

    python -m tests.fuzz.lark_grammars --count 20000 --seed 1

A grammar has rules with groups, options, repeats, aliases, inline rules and templates over terminals that are strings,
ranges, regular expressions with flags, other terminals, priorities, and assertions at their ends; some of them are
ignored.  It is read, and short texts, half of them derived from the grammar itself, are put to our machines, to what
`to_lark` prints of them (every eighth grammar) and to the library's Earley parser with the complete dynamic lexer.

Left out, and said where they are: terminals that can be empty, which the library refuses; texts on which the library
fails itself; very ambiguous texts (`CONFIGURATIONS`).
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from pathlib import Path

import lark

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from oracles import Acceptor, LarkOracle, derived, mutated

from constrained.errors import ConstrainedError, GrammarError, LimitExceeded
from constrained.grammar import Grammar
from constrained.work import Budget, metered

MAX_RULES = 60  # into which the library multiplies a grammar's repeats and options: with more it takes seconds
UNITS = 200_000  # of work for one grammar
CONFIGURATIONS = 20_000  # of our machines on one text, which only ambiguous grammars exceed: it is left out
ALPHABET = "aaabbbc01 #\n"
BEGINS = ("(?!a)", "(?!ab)", "(?=a)", r"\b", "^", "(?<!a)", "(?<=b)", r"\B", r"\A", r"(?!(?:ab|ba)\b)", "(?m:^)")
ENDS = (
    "(?!a)",
    "(?=b)",
    r"\b",
    "$",
    r"(?!\w)",
    "(?! )",
    r"\Z",
    r"(?!\d)",
    "(?!a|bc)",
    r"(?<!b)",
    r"(?<=a)",
    "(?m:$)",
    r"\B",
    r"(?=[^a]|$)",
)
BODIES = (
    "a", "b", "ab", "[ab]", "a+", "[ab]+", "a*b", "a|ab", "ab|a", "ab?", "a+?", "b{1,2}", "(?:ab)+", r"\w+", "[^a]", " +", "a b?", r"\d+", "[abc]{2,3}", "(?:a|b)+c?",
    "#[^\\n]*", r"\s", r"[a-c]\w*", "(?:0|1)+?", "a??b", "(a|b)(a|c)", "[^\\n]+", "a.b", "a{2}", "(?:a|ab)(?:c|bc)", "b*a*c",
)  # fmt: skip
IGNORED = (
    " ",
    " +",
    "b",
    "#",
    r"[ #]+",
    "#[^a]*",
    "a",
    " (?!b)",
    r"\b ",
    "# ?",
    r"^#[^\n]*",
    r"\A#",
    r"\B#",
    "(?<!a)#",
    r"#(?!#)",
    r"\s+",
    "(?=#)#+",
    r"#\b",
    " $",
)


class Grammars:
    """Random grammars; the same seed, the same grammars."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def make(self) -> str:
        choose, chance = self.random.choice, self.random.random
        self._terminals = ["A", "B", "C", "D"][: self.random.randint(1, 4)]
        self._rules = ["x", "_y"][: self.random.randint(0, 2)]
        self._templates = ["t"] if chance() < 0.2 else []
        lines = [f"{choose(('', '', '?', '!'))}start: {self._alternatives(self.random.choice((0, 0, 1)), top=True)}"]
        lines += [
            f"{'?' if chance() < 0.2 and not name.startswith('_') else ''}{name}: {self._alternatives(0)}"
            for name in self._rules
        ]
        if self._templates:
            lines.append(
                f"t{{p}}: {choose(('p', 'p B', 'p (A p)*', 'p t{p} | A', '[p] A', 'p | p p'))}".replace(
                    "B", self._terminals[-1]
                )
            )
        for at, name in enumerate(self._terminals):
            lines.append(f"{name}{choose(('', '', '', '.1', '.2', '.-1'))}: {self._terminal(at)}")
        if chance() < 0.4:
            for number in range(choose((1, 1, 2))):
                ignored = f"/{choose(IGNORED)}/"
                if chance() < 0.3:
                    lines.append(f"I{number}: {ignored}")
                    ignored = f"I{number}"
                lines.append(f"%ignore {ignored}")
        return "\n".join(lines)

    def _alternatives(self, depth: int, *, top: bool = False) -> str:
        found = []
        for _ in range(self.random.choice((1, 1, 2, 3))):
            parts = [self._part(depth) for _ in range(self.random.choice((1, 1, 2, 2, 3)))]
            found.append(" ".join(parts) + (self.random.choice(("", "", "", " -> z")) if top else ""))
        if self.random.random() < 0.06:
            found.append("")
        return " | ".join(found)

    def _part(self, depth: int) -> str:
        choose, roll = self.random.choice, self.random.random()
        if depth and roll < 0.12:
            return f"({self._alternatives(depth - 1)})".replace("( ", "(") + choose(("", "?", "*", "+", "~1..2", "~2"))
        if depth and roll < 0.18:
            return f"[{self._alternatives(depth - 1)}]"
        if self._templates and roll < 0.28:
            return f"t{{{choose([*self._terminals, *self._rules, chr(34) + 'a' + chr(34)])}}}"
        symbol = choose(
            [*self._terminals * 3, *self._rules * 2, '"a"', '"b"', '"ab"i', '"a".."c"', self._regexp(edges=False)]
        )
        return symbol + choose(("", "", "", "", "?", "*", "+", "~1..2", "~0..2", "~2"))

    def _terminal(self, at: int) -> str:
        choose, roll = self.random.choice, self.random.random()
        if roll < 0.15:
            return " | ".join(f'"{choose(("a", "b", "ab", "abc", "ba", "c"))}"' for _ in range(choose((1, 2, 3))))
        if roll < 0.2:
            return choose(
                ('"a".."c"', '"0".."1"', '"a"i', '"ab"i "c"?', '("a" | "b")+', '"a" "b"*', '["a"] "b"', '"b"~1..2 "a"')
            )
        if roll < 0.3 and at + 1 < len(self._terminals):
            other = choose(self._terminals[at + 1 :])
            return choose(("{}", "{} {}", '{} | "b"', '"a" {}', "{}+", '({} "c")?  "a"')).format(other, other)
        return self._regexp(edges=True)

    def _regexp(self, *, edges: bool) -> str:
        choose, chance = self.random.choice, self.random.random
        begin = choose(BEGINS) if edges and chance() < 0.15 else ""
        end = choose(ENDS) if edges and chance() < 0.25 else ""
        body = choose(BODIES)
        return (
            f"/{begin}(?:{body}){end}/" + choose(("", "", "", "", "i", "s", "m", "im"))
            if begin or end
            else f"/{body}/" + choose(("", "", "", "i"))
        )

    def texts(self, grammar: Grammar, count: int) -> list[str]:
        own = [derived(grammar, self.random, self.random.choice((2, 5, 8))) for _ in range(count)]
        own += [mutated(text, self.random, ALPHABET) for text in own]
        free = ["".join(self.random.choices(ALPHABET, k=self.random.randrange(6))) for _ in range(count)]
        return [text for text in dict.fromkeys(["", "a", *own, *free]) if len(text) <= 10]


def check(source: str, grammars: Grammars, *, printed: bool) -> str:
    """Return the class of outcome: "read", "wrong", "limit", "refused by lark".

    Raises: AssertionError: a law is broken.  Any exception outside the tree passes through.
    """
    try:
        library = LarkOracle(source)
    except lark.exceptions.LarkError as error:
        library = None
        refusal = str(error)
    try:
        with metered(Budget(UNITS)):
            grammar = Grammar.from_lark(source)
        acceptors = [Acceptor(grammar.start_state(), CONFIGURATIONS)]
        if printed:
            with metered(Budget(5 * UNITS)):
                again = Grammar.from_lark(grammar.to_lark())
            assert again.widened == again.narrowed == (), "what is printed differs"
            acceptors.append(Acceptor(again.start_state(), CONFIGURATIONS))
    except ConstrainedError as error:
        assert isinstance(error, (GrammarError, LimitExceeded)), error
        assert len(str(error).encode("utf-8", "backslashreplace")) <= 2048, f"a message of {len(str(error))} characters"
        return "limit" if isinstance(error, LimitExceeded) else "wrong"
    if library is None:
        assert "zero-width" in refusal or "Rules defined twice" in refusal, f"lark refuses it: {refusal}"
        return "refused by lark"
    if len(library.rules) > MAX_RULES:
        return "too large for lark"
    for text in grammars.texts(grammar, 4):
        try:
            found = [acceptor.accepts(text) for acceptor in acceptors]
        except OverflowError:
            continue
        expected = _taken(library, text)
        assert expected is None or found == [expected] * len(found), f"on {text!r}: {found}, lark {expected}"
    return "narrowed" if grammar.narrowed else "read"


def _taken(library: LarkOracle, text: str) -> bool | None:
    """Return whether the library takes a text, None where it fails itself; two items for the whole of it, it reports as
    a bug of its own.
    """
    try:
        return library.accepts(text)
    except RuntimeError as error:
        if "multiple start symbol items" in str(error):
            return True
        raise


def run(count: int, seed: int, *, stop: bool = True) -> Counter[str]:
    """Check `count` grammars and return how often each outcome came; at the first difference `stop`, or else print it
    and go on.
    """
    outcomes = Counter[str]()
    for number in range(count):
        grammars = Grammars(seed * 1_000_003 + number)
        source = grammars.make()
        try:
            outcomes[check(source, grammars, printed=number % 8 == 0)] += 1
        except Exception as error:
            print(f"seed {seed}, grammar {number}: {error}\n{source}\n", file=sys.stderr)
            if stop:
                raise
            outcomes["different"] += 1
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000, help="grammars")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--all", action="store_true", help="go on behind a difference")
    options = parser.parse_args()
    outcomes = run(options.count, options.seed, stop=not options.all)
    print(dict(sorted(outcomes.items())))
    sys.exit(bool(outcomes["different"]))


if __name__ == "__main__":
    main()
