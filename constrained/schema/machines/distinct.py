"""Arrays whose items must be distinct: exact for scalars, by value.

The values written so far are part of the position and are left out of what may come next (`number_language`, `cut`).
So 1, 1.0 and 10e-1 count as one value, and a string is refused in every spelling.

Arrays and objects as items are told apart where there are few of them (an enum, say): each value is a machine of its
own.  Where there are many, the value is recorded while it is read, see `items`.

Where some items are counted (``contains``), they are read kind by kind, see `counts.Kinds`.

Left out: "not uniqueItems", and items under further conditions (some negations).  Both raise UnsupportedSchema.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from constrained.caches import cached
from constrained.errors import UnsupportedSchema
from constrained.machine import END, Bytes, Dispatch, Quoting, State, Text
from constrained.once import once
from constrained.regex import NEVER
from constrained.schema.machines.items import OpenItem, Place, Return, is_live
from constrained.schema.machines.recorded_values import SCALAR_KINDS, Built, Earlier, Item, Whole, Written, whole_of
from constrained.schema.machines.texts import without_dead_ends
from constrained.schema.normal.counts import Kinds, matched, values_below
from constrained.schema.numeric.keys import NUMBERS, number_value
from constrained.schema.numeric.language import number_language
from constrained.schema.numeric.ranges import are_few
from constrained.schema.reading.document import NOTHING
from constrained.schema.strings.absent import lacks_text
from constrained.schema.strings.scarcity import scarce_from
from constrained.schema.values import ArrayShape, Conj
from constrained.work import spend

if TYPE_CHECKING:
    from constrained.schema.machines.array import ArrayPosition
    from constrained.schema.machines.value import Values

Calls: TypeAlias = "list[tuple[State, State | Dispatch]]"

_MOST_LISTED = 65
_FEW = 64  # numbers and texts
_MOST_PLACES = 400  # kinds of places inside an item that are looked at
_MOST_KEPT = 10_000  # places of items, with what is known about them


class AfterText(Dispatch):
    """What follows a string or a number, which must not come again; used ones are refused."""

    records = True

    def __init__(self, after: ArrayPosition, used: frozenset[Item], *, number: bool, tells_from: int | None = None,
                 alike: bool = False, whole: State | None = None) -> None:
        self._after, self.tells_from, self.alike, self._whole = after, tells_from, alike, whole
        self._item = self.compared = _number if number else _string
        self._used = self.refused = used

    @property
    def elsewhere(self) -> tuple[Text, ...] | None:
        """Ways out read all strings, also where this one is among those that are left; see `Distinct.items`."""
        return ((self._whole,) if isinstance(self._whole, Text) else ()) if self.alike else None

    @once
    def refuses(self) -> bool:
        """The language of numbers leaves the used ones out, but for those that are too long to write down."""
        if self._item is _string:
            return True
        return any(kind == "number" and not isinstance(value, Fraction) for kind, value in self._used)

    @once
    def special(self) -> frozenset[str]:
        """The used strings, and the empty one, as one token can hold it twice."""
        return frozenset() if self._item is _number else _texts(self._used) | {""}

    def after_text(self, text: str | None) -> State | None:
        if text is None:
            return self._after
        item = self._item(text)
        return None if item in self._used else self._after._replace(written=self._after.written.plus(item))


def _string(text: str) -> Item:
    return "string", text


@cached(4096)  # PERF: what is tried behind each item is the same object, so that sets need not compare fractions
def _number(text: str) -> Item:
    return "number", number_value(text)


def _constant(conj: Conj, item: Item) -> Conj:
    """Return the conjunction of one value."""
    node = next(iter(conj)).node
    return node.document.constant(_plain(item), node.where)


def _plain(item: Any) -> Any:
    """Return the JSON value of an item."""
    kind, value = item
    if kind == "array":
        return [_plain(part) for part in value]
    if kind == "object":
        return {key: _plain(part) for key, part in value}
    return value


class Distinct:
    """The items of one array whose items must be distinct."""

    start = Written()

    def __init__(self, values: Values, shape: ArrayShape) -> None:
        if shape.unique is False:
            raise UnsupportedSchema(
                "cannot compile the complement of uniqueItems", because="two equal items can be any two",
                instead='state which items are equal, or set unsupported="widen"')
        if shape.clauses or shape.counts and shape.prefix:
            raise UnsupportedSchema(
                "cannot compile uniqueItems",
                because="it stands beside conditions on single items: a negated schema, or contains beside prefixItems",
                instead='drop one of them, or set unsupported="widen"',
            )
        self._values, self._shape = values, shape
        self._kinds = Kinds(shape, values.never, values.value) if shape.counts else None
        self._places: dict[tuple[State, Return | None], Place] = {}
        self._starts: dict[Conj, list[tuple[bytes, str, State]]] = {}
        # the values of positions with composite values: a few, each with its machine
        self._listed: dict[Conj, dict[Item, State]] = {}
        conjs = [kind.conj for kind in self._kinds.all] if self._kinds is not None else (*shape.prefix, shape.rest)
        for conj in dict.fromkeys(conjs):
            value = values.value(conj)
            if value.arrays or value.objects:
                few: frozenset[Any] | None = _few_composites(conj, values)
                if few is not None:
                    self._listed[conj] = {item: values.state(_constant(conj, item)) for item in sorted(few, key=repr)}

    @once
    def alike(self) -> bool:
        """Whether all items are read in one way: at a place inside of an item stands a text of one language, whichever
        item it is and whatever is written around it.  See `Dispatch.alike`.
        """
        if self._shape.prefix or self._shape.counts:
            return False
        seen, queue = {self._shape.rest}, [self._shape.rest]
        for conj in queue:
            spend(1)
            value = self._values.value(conj)
            if len(value.arrays) > 1 or len(value.objects) > 1 or len(seen) > _MOST_PLACES:
                return False
            parts: list[Conj] = []
            for array in value.arrays:
                if array.clauses or array.counts:
                    return False
                parts += [*array.prefix, array.rest]
            for shape in value.objects:
                if shape.clauses:
                    return False
                parts += [part for _, part in (*shape.named, *shape.cells)]
            fresh = [part for part in dict.fromkeys(parts) if part not in seen and part != NOTHING]
            seen.update(fresh)
            queue += fresh
        return True

    @once
    def elsewhere(self) -> tuple[Text, ...] | None:
        """The texts that stand in items, where one place may have several; see `Dispatch.elsewhere`."""
        known = self.alike or self._shape.prefix or self._shape.counts
        return (() if self.alike else None) if known else self._values.texts_within(self._shape.rest)

    @once
    def never_lacks(self) -> bool:
        """Whether one more item may come whatever was written, so that what was matters to nothing but to an item that
        would be the same; False also where that is not plain to see.
        """
        shape = self._shape
        plain = not (shape.prefix or shape.counts or shape.rest in self._listed) and self.quotes_keys
        return plain and any(self.place(state, None).leads_on() for _, _, state in self._opened(shape.rest))

    @property
    def gap(self) -> State | None:
        return self._values.punctuation.gap

    @property
    def ordered(self) -> bool:
        """Whether keys come in the order of the schema."""
        return self._values.ordered

    @once
    def quotes_keys(self) -> bool:
        """Whether the keys of all objects in items stand in quotes."""
        return self._values.punctuation.keys.quoting != Quoting.RAW

    def forgotten(self, written: Written) -> frozenset[Item]:
        """Return the numbers and strings that were written: of most of them nobody asks again, see `written_again`."""
        kinds = ("number",) if self._kinds is not None else ("number", "string")
        return frozenset([item for item in written.scalars if item[0] in kinds])

    def written_again(self, word: str, items: frozenset[Item]) -> frozenset[Item]:
        """Return those of some numbers and strings that a word of bytes may write: of the strings, of numbers all or
        none.
        """
        strings = self._values.punctuation
        quoted = strings.quote is None and strings.strings != Quoting.RAW
        found = [item for item in items if item[0] == "string" and not lacks_text(word, str(item[1]), quoted=quoted)]
        numbers = frozenset([item for item in items if item[0] == "number"])
        repeated = bool(numbers) and any(("number", number_value(text)) in numbers for text in NUMBERS.findall(word))
        return frozenset(found) | (numbers if repeated else frozenset())

    def place(self, state: State, returns: Return | None) -> Place:
        """Return the place behind all that has come to its end there; kept."""
        while state is END and returns is not None:
            state, returns = returns.then, returns.parent
        found = self._places.get((state, returns))
        if found is None:
            if len(self._places) >= _MOST_KEPT:
                for known in self._places.values():
                    known.forget()
                self._places.clear()
            found = self._places[state, returns] = Place(self, state, returns)
        return found

    def behind(self, after: ArrayPosition, whole: Whole) -> State:
        """Return the position behind an array or object that was not written before."""
        return after._replace(written=after.written.plus_whole(whole))

    def items(self, written: Written, index: int, after: ArrayPosition, *, hurried: bool = False) -> Calls:
        """Return the calls that read the next item: a value that has not been written and leaves enough for the items
        to come.

        hurried: numbers and strings that have been written are refused when they are complete, instead of left out of
        the language, which is then the same behind all items; but for a few of them, which may all be written.
        """
        reserved = self._reserved(written, index)
        return self._read(self._conj(index), written, reserved, after, index=index, hurried=hurried)

    def counted(
        self, written: Written, counts: tuple[int, ...], length: int
    ) -> Iterator[tuple[Conj, tuple[int, ...]]]:
        """Yield what the next item may be where some are counted, each with how often the counts are met then."""
        assert self._kinds is not None
        many = len(written.scalars) + written.composites.count
        for kind, met in self._kinds.options(many, lambda items: len(written.without(items)), counts, length):
            yield kind.conj, met

    def of_kind(self, conj: Conj, written: Written, after: ArrayPosition, *, hurried: bool) -> Calls:
        """Return the calls that read an item that `counted` has yielded."""
        return self._read(conj, written, frozenset(), after, index=None, hurried=hurried)

    def _read(
        self, conj: Conj, written: Written, reserved: frozenset[Item], after: ArrayPosition,
        *, index: int | None, hurried: bool,
    ) -> Calls:
        """Return the calls that read an item of a conjunction; index: its place, None: of one kind of several."""
        spend(1 + len(written.scalars) // 8 + (0 if hurried else written.composites.count))
        if conj in self._listed:
            listed = self._listed[conj]
            return [
                (listed[item], after._replace(written=written.plus(item)))
                for item in written.without(listed)
                if item not in reserved
            ]
        used = written.scalars | reserved
        value, marks = self._values.value(conj), self._values.punctuation
        words: list[tuple[bytes, Item]] = [
            (marks.true if boolean else marks.false, ("boolean", boolean)) for boolean in sorted(value.booleans)]
        words += [(marks.null, ("null", None))] if value.null else []
        calls: Calls = [
            (Bytes(word, END), after._replace(written=written.plus(item))) for word, item in words if item not in used]
        if value.numbers:
            spend(len(value.numbers) // 2)  # they are hashed
            left_out = used if not hurried or are_few(value.numbers, _FEW) else ()
            tells = 1 if index is None else None
            language = number_language(
                value.numbers, marks.numbers, frozenset(item for _, item in left_out if isinstance(item, Fraction))
            )
            if language.edges():
                calls.append((Text(Quoting.RAW, language), AfterText(after, used, number=True, tells_from=tells)))
        strings = None if value.strings is NEVER else value.strings
        if strings is not None and not (hurried and scarce_from(strings, _FEW + 2 * len(used)) != 0):
            strings = without_dead_ends(strings, _texts(used))
        if strings is not None:
            tells_from = 1 if index is None else self._tells_from(written, index + 1)
            alike = index is not None and not self._shape.prefix
            whole = self._values.string(value.strings) if strings is not value.strings else None
            follows = AfterText(after, used, number=False, tells_from=tells_from, alike=alike, whole=whole)
            calls.append((self._values.string(strings), follows))
        return calls + self._composites(conj, written, reserved, after, hurried=hurried)

    def _composites(
        self, conj: Conj, written: Written, reserved: frozenset[Item], after: ArrayPosition, *, hurried: bool
    ) -> list[tuple[State, State | Dispatch]]:
        """Return the calls that read the opening bracket of an array or object, as far as one is left; hurried: which
        is not asked.
        """
        earlier = written.composites
        for item in reserved:
            if item[0] not in SCALAR_KINDS:
                earlier = Earlier(whole_of(item), earlier)
        items = [
            (opening, OpenItem(self, after, self.place(state, None), Built(None, kind, earlier), earlier))
            for opening, kind, state in self._opened(conj)
        ]
        return [(Bytes(opening, END), item) for opening, item in items if hurried or is_live(item)]

    def _opened(self, conj: Conj) -> list[tuple[bytes, str, State]]:
        """Return the states behind the opening brackets of an item; kept, so that all items share what is known about
        them.
        """
        found = self._starts.get(conj)
        if found is None:
            value, marks = self._values.value(conj), self._values.punctuation
            found = [(brackets.opening, "array", self._values.opened_array(value.arrays, index, conj))
                     for index, brackets in enumerate(marks.arrays if value.arrays else ())]
            if value.objects:
                found.append((marks.objects.opening, "object", self._values.opened_object(value.objects, marks, conj)))
            self._starts[conj] = found
        return found

    def _tells_from(self, written: Written, index: int) -> int | None:
        """Return how many bytes it takes to tell at item `index` that one more string is used; see
        `Dispatch.tells_from`.
        """
        conj = self._conj(index)
        if conj in self._listed or self._may_lack:
            return 1  # the comma
        strings = self._values.value(conj).strings
        characters = scarce_from(strings, len(_texts(written.scalars)) + 1) if strings is not NEVER else None
        return None if characters is None else 2 + characters if characters else 1  # behind comma and quote

    def _reserved(self, written: Written, index: int) -> frozenset[Item]:
        """Return the values that a later item cannot do without."""
        domains = [self._few(at) for at in range(index + 1, min(self._shape.min, len(self._shape.prefix) + 1))]
        rest_needs = max(0, self._shape.min - max(index + 1, len(self._shape.prefix)))
        if not any(domains):
            return frozenset()
        if rest_needs and domains[-1] is not None and len(self._shape.prefix) < self._shape.min:
            domains += [domains[-1]] * (rest_needs - 1)
        if len(set(domains)) == 1 and self._few(index) == domains[0]:
            return frozenset()
        # in an order that no hash decides, as work depends on it
        listed = {domain: sorted(domain, key=repr) for domain in dict.fromkeys(domains) if domain is not None}
        left = [written.without(listed[domain]) for domain in domains if domain is not None]
        chosen = matched(left)
        if chosen is None:  # the values of this position are among them
            return frozenset(item for domain in left for item in domain)
        return frozenset(
            item  # type: ignore[misc]
            for item, position in chosen.items()
            if matched(left, _given_up(chosen, item), item) is None
        )

    def _few(self, index: int) -> frozenset[Item] | None:
        """Return the values of a position if they are few enough to run out, None otherwise."""
        if self._shape.min < 2:
            return None
        # items, by its documentation
        return values_below(self._conj(index), self._shape.min, self._values.value)  # type: ignore[return-value]

    @once
    def _may_lack(self) -> bool:
        """Whether some position can run out of values while more items are needed."""
        return any(self._few(index) is not None for index in range(len(self._shape.prefix) + 1))

    def continues(self, written: Written, index: int, after: ArrayPosition) -> bool:
        """Say whether some value is left for the next item."""
        conj = self._conj(index)
        value = self._values.value(conj)
        if conj not in self._listed and (value.arrays or value.objects):
            if any(self.place(state, None).leads_on() for _, _, state in self._opened(conj)):
                return True
            return bool(self.items(written, index, after))
        few: frozenset[Any] | None = values_below(
            conj, len(written.scalars) + written.composites.count + 1, self._values.value
        )
        return few is None or bool(written.without(few))

    def _conj(self, index: int) -> Conj:
        return self._shape.prefix[index] if index < len(self._shape.prefix) else self._shape.rest


def _few_composites(conj: Conj, values: Values) -> frozenset[Any] | None:
    """Return the values of items that can be arrays or objects, None if they are many or cannot be listed."""
    try:
        return values_below(conj, _MOST_LISTED, values.value)
    except UnsupportedSchema:
        return None


def _texts(items: frozenset[Item]) -> frozenset[str]:
    return frozenset(str(text) for kind, text in items if kind == "string")


def _given_up(chosen: dict[object, int], item: object) -> dict[object, int]:
    left = chosen.copy()  # PERF: without hashing the others again
    del left[item]
    return left
