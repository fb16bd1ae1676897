"""Probes of calls and of results → `Calls`, `Results`.

Where names and arguments come out tells what stands around them; two calls and three tell what stands between.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from constrained.formats.deriving.probes import (
    ANSWERED,
    ID,
    IDS,
    RESULT,
    SPEAKER,
    TEXT,
    THOUGHT,
    TOOLS,
    Around,
    Calls,
    Results,
    Shape,
    Unexplained,
    call,
    common_end,
    common_start,
    gaps,
    result,
    says,
    user,
    without_end,
    without_start,
)
from constrained.formats.payload.values import write_json, write_keywords

if TYPE_CHECKING:
    from constrained.formats.deriving.probes import Probing

ARGUMENTS = {"wkey0": "wvalue0", "wkey1": "wvalue1"}
VALUES: dict[str, Any] = {
    "numbers": 5, "decimals": 1.5, "booleans": True, "null": None, "lists": [1, "x", None],
    "objects": {"a": True, "b": "ü<'"},
}  # fmt: skip
_RAW = "q\"x'\\y é<b"  # a string that JSON and Python escape


class _Cut(NamedTuple):
    """A turn of calls at its names and arguments: what stands before the first, in the calls, between, and behind."""

    before: str
    middles: list[str]
    between: list[str]
    after: str
    arguments_first: bool


class _Turns:
    """Turns of calls as the template prints them, behind the header; ids are `ID`."""

    def __init__(self, probing: Probing, shape: Shape) -> None:
        self.probing, self.shape = probing, shape
        self.asked = probing.text([user()], TOOLS)
        self.as_text, self.surface = False, ""
        self.counted: int | None = None  # where calls are numbered, the first

    def print(
        self,
        *arguments: Any,
        text: str = "",
        behind: Any = (),
        slots: bool = True,
        more: Mapping[str, Any] = MappingProxyType({}),
    ) -> str:
        """Return a turn with a call for each of the arguments; slots: whether ids in it are `ID`."""
        given = [write_json(one) if self.as_text and isinstance(one, dict) else one for one in arguments]
        calls = [call(f"wname{at}", one, at) for at, one in enumerate(given)]
        messages = [user(), says(text=text, tool_calls=calls, more=more), *behind]
        whole = self.probing.text(messages, TOOLS)
        body = without_start(whole, self.asked, "what stands before a call depends on it", messages)
        body = without_start(body, self.shape.header, "a turn with a call begins unlike others", messages)
        for one in IDS if slots else ():
            body = body.replace(one, ID)
        return body

    def numbered(self, text: str) -> str:
        """Return a text with `ID` in place of the number of the first call, where calls are numbered."""
        return text if self.counted is None else re.sub(_number_of(self.counted), ID, text)

    def spelled(self, arguments: Any) -> str:
        """Return arguments as the surface writes them."""
        return write_keywords(arguments) if self.surface == "python" else write_json(arguments)

    def find_surface(self) -> None:
        """Find out how arguments are written.  Raises: Unexplained: in none of the known ways."""
        for self.as_text in (False, True):
            try:
                body = self.print(ARGUMENTS)
            except Unexplained:
                if self.as_text:
                    raise
                continue  # it wants JSON text
            if "wname0" not in body:
                raise Unexplained("the template does not print calls")
            for self.surface in ("json", "python"):
                if body.count(self.spelled(ARGUMENTS)) == 1:
                    return
            if str(ARGUMENTS) not in body:
                break
        self.surface = "tagged"
        words = [word for pair in ARGUMENTS.items() for word in pair]
        gaps(self.print(ARGUMENTS), words)
        if self.print({"wkey0": _RAW}).count(_RAW) != 1:
            raise Unexplained("the template spells arguments neither as JSON, nor as Python, nor as they are")

    def cut(self, body: str, count: int) -> _Cut:
        """Return a turn of so many calls with `ARGUMENTS` at names and arguments."""
        if self.surface == "tagged":
            text = body
            first, last = "wkey0", "wvalue1"
        else:
            first = last = "\0arguments"
            text = body.replace(self.spelled(ARGUMENTS), first)
        places = [(at, at + len(last) if last != first else at + len(first)) for at in _all(text, first)]
        if self.surface == "tagged":
            places = [(start, end + len(last)) for (start, _), end in zip(places, _all(text, last), strict=False)]
        names = [(text.find(f"wname{at}"), text.find(f"wname{at}") + 6) for at in range(count)]
        if len(places) != count or any(text.count(f"wname{at}") != 1 for at in range(count)):
            raise Unexplained(
                "a call is not printed once" if count == 1 else "several calls of a turn are not all printed"
            )
        arguments_first = places[0] < names[0]
        flat = [place for pair in zip(names, places, strict=True) for place in sorted(pair)]
        if flat != sorted(flat):
            raise Unexplained("names and arguments of calls stand in no order")
        ends = [0, *(end for _, end in flat)]
        starts = [*(start for start, _ in flat), len(text)]
        parts = [text[end:start] for end, start in zip(ends, starts, strict=True)]
        return _Cut(parts[0], parts[1::2], parts[2:-1:2], parts[-1], arguments_first)


def _all(text: str, word: str) -> list[int]:
    return [found.start() for found in re.finditer(re.escape(word), text)]


def calls_of(probing: Probing, shape: Shape) -> Shape:
    """Return the shape with its calls.  Raises: Unexplained."""
    turns = _Turns(probing, shape)
    turns.find_surface()
    one = turns.cut(turns.print(ARGUMENTS), 1)
    prefix = shape.last if shape.last and one.before.startswith(shape.last) else ""
    one = one._replace(before=one.before[len(prefix) :])
    several = _several(turns)
    counted = None
    if several is not None and ID not in one.before + one.middles[0] + one.after:
        counted, one, several = _counted(one, several)
        turns.counted = counted
    call_open, call_close, separator = one.before, one.after, None
    if several is not None:
        gap = several.between[0]
        call_open = common_end(one.before, gap)
        call_close = common_start(gap[: len(gap) - len(call_open)], one.after)
        separator = gap[len(call_close) : len(gap) - len(call_open)]
    opening = _text_before(turns, one.before)
    if several is not None and not opening.endswith(call_open):
        raise Unexplained("what stands before the first call depends on the text before it")
    if several is None:
        call_open, call_close = opening, ""
    before = without_end(one.before, opening, "what stands before a call depends on the text before it")
    texted, between = _between(turns, opening)
    calls = Calls(
        turns.surface, turns.as_text, before, between, opening[: len(opening) - len(call_open)],
        one.after[len(call_close) :], Around(call_open, call_close), one.middles[0], separator,
        arguments_first=one.arguments_first, counted=counted, prefixed=bool(prefix), text_prefixed=texted,
    )  # fmt: skip
    if turns.surface == "tagged":
        calls = _kinds(turns, _members(turns, calls))
    else:
        _check_values(turns)
    shape = _ended(turns, replace(shape, calls=calls))
    return _thinking(turns, shape, opening)


def _several(turns: _Turns) -> _Cut | None:
    """Return a turn of two calls; None: the template has one a turn."""
    try:
        found = turns.cut(turns.print(ARGUMENTS, ARGUMENTS), 2)
    except Unexplained as error:
        turns.probing.doubts["several calls in a turn"] = error.because
        return None
    try:
        three = turns.cut(turns.print(ARGUMENTS, ARGUMENTS, ARGUMENTS), 3)
    except Unexplained as error:
        raise Unexplained(f"three calls are printed unlike two: {error.because}") from error
    if [_number(gap, at) for at, gap in enumerate(three.between)] != [_number(found.between[0], 0)] * 2:
        raise Unexplained("three calls are printed unlike two")
    return found


def _number(text: str, at: int) -> str:
    return re.sub(rf"\b({at + 1}|{at + 2})\b", "#", text)


def _number_of(value: int) -> str:
    return rf"(?<![\w.]){value}(?![\w.])"


def _counted(one: _Cut, several: _Cut) -> tuple[int | None, _Cut, _Cut]:
    """Return from where on calls are numbered, None if they are not, and the turns with `ID` in place of numbers."""
    for first in (0, 1):
        mine, theirs = (re.compile(_number_of(first + at)) for at in (0, 1))
        before = mine.sub(ID, one.before)
        gap = theirs.sub(ID, several.between[0])
        if ID in common_end(before, gap):
            return first, one._replace(before=before), several._replace(before=before, between=[gap])
        if mine.search(one.middles[0]) and mine.sub(ID, one.middles[0]) == theirs.sub(ID, several.middles[1]):
            middles = [mine.sub(ID, one.middles[0])]
            return first, one._replace(middles=middles), several
    if one.middles[0] != several.middles[1]:
        raise Unexplained("the second call of a turn is printed unlike the first")
    return None, one, several


def _text_before(turns: _Turns, before: str) -> str:
    """Return what opens the first call whether or not a text stands before it."""
    try:
        gap = turns.numbered(gaps(turns.print(ARGUMENTS, text=f"{TEXT}0"), [f"{TEXT}0", "wname0"])[1])
    except Unexplained:
        gap = None
    if gap is None:
        turns.probing.doubts["text beside calls"] = (
            "the template does not print it before them; here it is a turn of its own"
        )
        return before
    return common_end(before, gap)


def _between(turns: _Turns, opening: str) -> tuple[bool, str | None]:
    """Return whether a text before calls begins as an answer does, and what stands between it and calls, None where
    there is none.
    """
    if "text beside calls" in turns.probing.doubts:
        return False, None
    before, gap = gaps(turns.print(ARGUMENTS, text=f"{TEXT}0"), [f"{TEXT}0", "wname0"])[:2]
    gap = turns.numbered(gap)
    if before not in ("", turns.shape.last):
        raise Unexplained("a text before calls begins unlike others")
    return bool(before), without_end(gap, opening, "what stands before a call depends on the text before it")


def _members(turns: _Turns, calls: Calls) -> Calls:
    """Return calls with what stands around keys and values."""
    two = gaps(turns.print(ARGUMENTS), ["wname0", *(word for pair in ARGUMENTS.items() for word in pair)])
    _, to_key, to_value, to_next, to_second, behind = two
    if to_value != to_second:
        raise Unexplained("the second argument of a call is printed unlike the first")
    key_open = common_end(to_key, to_next)
    value_close = common_start(to_next[: len(to_next) - len(key_open)], behind)
    if value_close + key_open != to_next or not value_close or not key_open:
        raise Unexplained("what stands between two arguments is neither behind the first nor before the second")
    middle = without_end(calls.middle, key_open, "the first argument of a call begins unlike the second")
    closing = without_start(calls.call.close or calls.close, value_close, "the last argument ends unlike others")
    if not calls.call.close:  # one call a turn
        calls = replace(calls, close="")
    while key_open[0] in "\n " and value_close and closing.startswith(key_open[0]):  # a line break belongs to the line
        mark = key_open[0]
        key_open, middle, value_close, closing = key_open[1:], middle + mark, value_close + mark, closing[1:]
    none = gaps(turns.print({}), ["wname0"])[1]
    none = turns.numbered(none)
    behind = closing + calls.close
    no_arguments = None
    if none != middle + behind:
        rest = common_end(none, calls.close)
        if rest != calls.close:
            raise Unexplained("a call without arguments ends unlike others")
        inner = none[: len(none) - len(calls.close)]
        no_arguments = without_start(inner, middle, "a call without arguments is printed unlike others")
    return replace(
        calls, middle=middle, member=(key_open, to_value, value_close), arguments_close=closing,
        no_arguments=no_arguments,
        call=Around(calls.call.open, ""),
    )  # fmt: skip


def _kinds(turns: _Turns, calls: Calls) -> Calls:
    """Return calls with what stands before values of each kind that are no strings."""
    before, odd = dict[str, str](), list[str]()
    for kind, value in VALUES.items():
        behind = turns.print({"wkey0": value}).partition("wkey0")[2]
        for spelled in (write_json(value), str(value)):
            at = behind.find(spelled + calls.member[2])
            if at >= 0:
                before[kind] = behind[:at]
                odd += [] if spelled == write_json(value) else [kind]
                break
        else:
            before[kind] = calls.member[1]
            odd.append(kind)
    _note(turns, odd)
    known = [kind for kind in VALUES if kind not in odd]
    if before["numbers"] != before["decimals"] or any(not text for text in before.values()):
        raise Unexplained("arguments of several kinds are printed in ways that no member has")
    if all(before[kind] == calls.member[1] for kind in known):
        return calls
    return replace(calls, openings=tuple((kind, text) for kind, text in before.items() if kind != "decimals"))


def _check_values(turns: _Turns) -> None:
    """Note which kinds of values the template does not write as the surface does."""
    if turns.print({"wkey0": _RAW}).count(turns.spelled({"wkey0": _RAW})) != 1:
        raise Unexplained("the template spells strings of arguments in a way of its own")
    _note(
        turns,
        [
            kind
            for kind, value in VALUES.items()
            if turns.print({"wkey0": value}).count(turns.spelled({"wkey0": value})) != 1
        ],
    )


def _note(turns: _Turns, odd: list[str]) -> None:
    turns.probing.odd = tuple(odd)
    if odd:
        written = "Python" if turns.surface == "python" else "JSON"
        turns.probing.doubts["values of arguments"] = f"{', '.join(odd)} are not printed as {written}; here they are"


def _ended(turns: _Turns, shape: Shape) -> Shape:
    """Return the shape with what ends a turn of calls cut from the calls."""
    assert shape.calls is not None
    close = shape.calls.close
    if shape.close and close.endswith(shape.close):
        return replace(shape, calls=replace(shape.calls, close=close[: -len(shape.close)]), calls_end=shape.close)
    if not shape.ends:
        return replace(shape, calls_end=shape.close)
    return shape


def _thinking(turns: _Turns, shape: Shape, opening: str) -> Shape:
    """Return the shape with how a thought ends before a call."""
    thoughts = shape.thoughts
    if thoughts is None or not thoughts.key:
        return shape
    try:
        _, gap = gaps(turns.print(ARGUMENTS, more={thoughts.key: f"{THOUGHT}0"}), [f"{THOUGHT}0", "wname0"])[:2]
        gap = turns.numbered(gap)
    except Unexplained:
        turns.probing.doubts["thoughts beside calls"] = "the template does not print them"
        return replace(shape, thoughts=replace(thoughts, before_calls=False))
    close = without_end(gap, opening, "what stands before a call depends on the thought before it")
    return replace(shape, thoughts=replace(thoughts, close_before_call=close))


def results_of(probing: Probing, shape: Shape) -> Shape:
    """Return the shape with how results stand.  Raises: Unexplained."""
    calls = shape.calls
    assert calls is not None
    turns = _Turns(probing, shape)
    turns.as_text, turns.surface = calls.as_text, calls.surface

    behind = partial(_behind, turns, shape)
    one = behind(result(0), says(1))
    before, to_answer, _ = gaps(one, [f"{RESULT}0", f"{TEXT}1"])
    alone = gaps(behind(result(0)), [f"{RESULT}0"])[1]
    header, opening = _answer_opening(shape, to_answer, alone)
    close = to_answer[: len(to_answer) - len(header + opening)]
    current = _current(turns, shape) if calls.prefixed or calls.text_prefixed != bool(shape.last) else shape.last
    shape = replace(shape, current=current, goes_on=header != shape.header)
    separator, group = "", Around("", "")
    each = Around(before, close)
    if calls.separator is not None:
        two = behind(result(0), result(1), says(1), count=2)
        first, gap, last, _ = gaps(two, [f"{RESULT}0", f"{RESULT}1", f"{TEXT}1"])
        if first != before or last != to_answer:
            raise Unexplained("the first of two results is printed unlike a single one")
        before, gap = _answering(before, gap)
        each = replace(each, open=before)
        opening = common_end(before, gap)
        ending = common_start(gap[: len(gap) - len(opening)], close)
        separator = gap[len(ending) : len(gap) - len(opening)]
        group = Around(before[: len(before) - len(opening)], close[len(ending) :])
        each = Around(opening, ending)
    quoted = _quoted(behind)
    if calls.counted is not None:
        shape = replace(shape, calls=replace(calls, per_turn=_per_turn(turns, calls)))
    return replace(shape, results=Results(group, each, separator, quoted))


def _answering(before: str, gap: str) -> tuple[str, str]:
    """Return what stands before the first result and the second; the number of the call that each answers is a slot."""
    for first in (0, 1):
        mine, theirs = (re.compile(_number_of(first + at)) for at in (0, 1))
        if (
            ANSWERED not in before
            and mine.search(before)
            and ANSWERED in common_end(mine.sub(ANSWERED, before), theirs.sub(ANSWERED, gap))
        ):
            return mine.sub(ANSWERED, before), theirs.sub(ANSWERED, gap)
    return before, gap


def _behind(turns: _Turns, shape: Shape, *results: Any, count: int = 1) -> str:
    """Return what stands behind a turn of so many calls; ids and names in it are slots."""
    calls = shape.calls
    assert calls is not None
    body = turns.print(*[ARGUMENTS] * count, behind=results, slots=False)
    last = "wvalue1" if turns.surface == "tagged" else turns.spelled(ARGUMENTS)
    places = _all(body, last)[:count]
    if len(places) != count:
        raise Unexplained("calls are printed in another way before results")
    ending = calls.member[2] + calls.arguments_close + calls.call.close + calls.close + shape.calls_end
    for one in IDS:
        ending = ending.replace(ID, one) if one == IDS[count - 1] else ending
    rest = without_start(body[places[-1] + len(last) :], ending, "a turn of calls ends unlike others, before results")
    for at, one in enumerate(IDS):
        rest = rest.replace(one, ANSWERED).replace(f"wname{at}", SPEAKER)
    return rest


def _current(turns: _Turns, shape: Shape) -> str:
    """Return what a turn of calls begins with that results follow, without a thought."""
    assert shape.calls is not None
    before = turns.print(ARGUMENTS, behind=[result(0), says(1)])
    opening = shape.calls.before + shape.calls.open + shape.calls.call.open
    for prefix in sorted({shape.mid, shape.last, ""}, key=len, reverse=True):
        if before.startswith(prefix + opening):
            return prefix
    raise Unexplained("a turn of calls begins unlike others, before results")


def _answer_opening(shape: Shape, gap: str, alone: str) -> tuple[str, str]:
    """Return the header of an answer behind results, which may lack it, and what stands before its text."""
    for opening in sorted({shape.last, shape.mid}, key=len, reverse=True):
        if shape.header and gap.endswith(shape.header + opening):
            return shape.header, opening
    if gap == alone + shape.last:
        return "", shape.last
    raise Unexplained("an answer begins unlike others, behind results")


def _per_turn(turns: _Turns, calls: Calls) -> bool:
    """Return whether calls of a later turn are numbered anew."""
    later = says(text="", tool_calls=[call("wname1", write_json(ARGUMENTS) if calls.as_text else ARGUMENTS, 1)])
    body = turns.print(ARGUMENTS, behind=[result(0), later])
    around = (calls.call.open + "wname1" + calls.middle).replace("\0first", "")
    for number, anew in ((calls.counted, True), ((calls.counted or 0) + 1, False)):
        if around.replace(ID, str(number)) in body:
            return anew
    raise Unexplained("calls of a later turn are numbered in another way")


def _quoted(behind: Any) -> bool:
    """Return whether results are JSON strings; else they are printed as they are."""
    plain = 'a"b\\c <é'
    text = behind(result(0, plain))
    if text.count(plain) == 1:
        return False
    if text.count(write_json(plain)) == 1:
        return True
    raise Unexplained("results are printed neither as they are nor as JSON")
