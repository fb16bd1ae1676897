"""Compiled passes that read what stands in a schema, keyword by keyword, and the numbers between two bounds.

    numbers     settled states and bounded ones, digit by digit, and the walk over a token's digits
    copies      of plain JSON
    nodes       of subschemas, as the passes below and `_values` follow them
    glances     whether a value is surely there; whether a schema is plain
    objects     those whose keys are in sight

Each has a plain twin in Python, named at its head, that runs where there is no compiler; tests/test_schema_compiled.py,
test_numbers_compiled.py and test_waiting_arguments.py compare them.  Units of work are the same.
"""
from cpython.dict cimport PyDict_Contains, PyDict_Copy, PyDict_GetItemWithError, PyDict_Next, PyDict_SetItem
from cpython.long cimport PyLong_AsLong, PyLong_FromVoidPtr
from cpython.ref cimport PyObject
from cython cimport final
from libc.math cimport isfinite
from libc.stdlib cimport free, malloc
from constrained._work cimport spent, spent_nearby

from constrained.caches import charge, forgets
from constrained.machine import ObjectTable
from constrained.schema.key_masks import mask_of
from constrained.schema.reading.document import Node, NOTHING, serials
from constrained.schema.normal.scalars import ARRAY, OBJECT, TYPE_BITS
from constrained.schema.values import ALWAYS, SignedNode


# ======================================================================================================================
# What is left of a number once no bound is compared with any digit of it, compiled: the states of `settled`, and
# those of exponents.
#
# The same states with the same edges, for the same units of work.
#
# Owns: its tables, which are emptied as those of the plain twins are.
# Plain twins: `number_texts.SettledStates`, `number_texts.ExponentStart` and `Digits`; compared in
# tests/test_numbers_compiled.py.
# ======================================================================================================================

cdef enum:
    ZERO = 0                  # where a mantissa ends, as in `exponents`
    WHOLE = 1
    POINT = 2
    FRACTION = 3
    MOST_STATES = 20000       # in one table

cdef enum:
    MOST_DIGITS = 65536       # in one table
    MOST_STARTS = 4096
    DIGITS = 1000             # bytes of one, estimated; of a start as well
    SETTLED = 600

cdef long long _LARGEST = 1 << 40           # bounds of an exponent that are read here
cdef dict _digits = {}
cdef dict _begins = {}


cdef class Numbers:
    """A state; compared by identity, keeps its edges."""

    cdef public object _edges
    cdef readonly bint accepts

    @property
    def goes_on(self):
        return False

    def edges(self):
        return self.made() if self._edges is None else self._edges

    cdef made(self):
        raise NotImplementedError

    def mask_key(self, horizon):
        return self


cdef int add(list edges, int low, int high, target) except -1:
    """Add the edge of a range of characters that comes after all others, as `number_texts.joined` does."""
    cdef tuple last
    if target is None:
        return 0
    if edges:
        last = <tuple>edges[len(edges) - 1]
        if last[2] is target and <int>last[1] == low - 1:
            edges[len(edges) - 1] = (last[0], high, target)
            return 0
    edges.append((low, high, target))
    return 0


# -- exponents ---------------------------------------------------------------------------------------------------------

@final
cdef class Digits(Numbers):
    """As `number_texts.Digits`."""

    cdef long long low, high, value
    cdef bint endless, empty, underscores, gap

    cdef made(self):
        spent_nearby(3)
        self._edges = tuple(self.listed())
        return self._edges

    def targets(self):
        """Return the edges, as `number_texts.Digits` lists them."""
        return self.listed()

    cdef list listed(self):
        cdef list found = []
        cdef long long value
        cdef int digit
        for digit in range(10):
            value = digit if self.empty else self.value * 10 + digit
            if self.endless and value >= self.low:
                value = self.low
            if _starts(value, self.low, self.high, self.endless):
                add(found, 48 + digit, 48 + digit, _digits_of(self, value, False, False))
        if found and self.underscores and not self.empty and not self.gap:
            add(found, 95, 95, _digits_of(self, self.value, False, True))
        return found


cdef bint _starts(long long value, long long low, long long high, bint endless) noexcept:
    """As `number_texts.starts`."""
    cdef long long least = value, most = value
    if value == 0 or endless:
        return True
    while least <= high:
        if most >= low:
            return True
        least, most = least * 10, most * 10 + 9
    return False


cdef _digits_of(Digits like, long long value, bint empty, bint gap):
    """Return the digits of the same exponents where others have been read."""
    cdef tuple key = (like.low, None if like.endless else like.high, None if empty else value, like.underscores, gap)
    cdef PyObject* known = PyDict_GetItemWithError(_digits, key)
    cdef Digits made
    if known != NULL:
        return <object>known
    if len(_digits) >= MOST_DIGITS:
        _digits.clear()
    made = Digits.__new__(Digits)
    made.low, made.high, made.value = like.low, like.high, value
    made.endless, made.empty, made.underscores, made.gap = like.endless, empty, like.underscores, gap
    made.accepts = not empty and not gap and like.low <= value
    charge(DIGITS)
    return _digits.setdefault(key, made)


cdef Digits _begun(long long low, high, bint underscores):
    """Return the digits of an exponent before the first one."""
    cdef Digits like = Digits.__new__(Digits)
    like.low, like.endless, like.high = low, high is None, 0 if high is None else high
    like.underscores = underscores
    return _digits_of(like, 0, True, False)


cdef bint _is_large(bound) except -1:
    return bound is not None and not -_LARGEST < bound < _LARGEST


def digits(low, high, spelling):
    """Return the digits of an exponent before the first one; None: its bounds are large."""
    return None if _is_large(low) or _is_large(high) else _begun(low, high, spelling.underscores)


@final
cdef class ExponentStart(Numbers):
    """As `number_texts.ExponentStart`."""

    cdef object least, most
    cdef bint underscores

    cdef made(self):
        cdef list found = []
        cdef Digits plus
        least, most = self.least, self.most
        spent_nearby(3)
        if most is None or most >= 0:
            plus = _begun(max(0, least or 0), most, self.underscores)
            found = [(43, 43, plus)]
        if least is None or least <= 0:
            low = 0 if most is None else max(0, -most)
            found.append((45, 45, _begun(low, None if least is None else -least, self.underscores)))
        if most is None or most >= 0:
            found += plus.listed()
        self._edges = tuple(found)
        return self._edges


def start(interval, spelling):
    """Return the state behind an "e" in a spelling that is not canonical, as `number_texts.exponent`; None: one of the
    bounds is large.
    """
    return _start(interval[0], interval[1], spelling)


cdef _start(least, most, spelling):
    cdef tuple key = (least, most, spelling)
    cdef PyObject* known = PyDict_GetItemWithError(_begins, key)
    cdef ExponentStart made
    if known != NULL:
        return <object>known
    if _is_large(least) or _is_large(most):
        return None
    if len(_begins) >= MOST_STARTS:
        _begins.clear()
    made = ExponentStart.__new__(ExponentStart)
    made.least, made.most, made.underscores, made.accepts = least, most, spelling.underscores, False
    charge(DIGITS)
    return _begins.setdefault(key, made)


@forgets
def _forget():
    _digits.clear()
    _begins.clear()


# -- where no bound is compared with any more --------------------------------------------------------------------------

@final
cdef class Settled(Numbers):
    """As `number_texts.Settled`."""

    cdef SettledStates table
    cdef int phase
    cdef bint whole, gap
    cdef long long zeros, fraction
    cdef object key_least, key_most, least, most

    @property
    def goes_on(self):
        return True

    cdef made(self):
        cdef list found = []
        cdef SettledStates table = self.table
        cdef int phase = self.phase
        cdef bint whole = self.whole
        cdef long long zeros = self.zeros, fraction = self.fraction
        spent_nearby(3)
        least, most = self.key_least, self.key_most
        if phase == WHOLE:
            if not self.gap:
                add(found, 46, 46, table.get(POINT, least, most, whole, zeros, fraction, False))
            least, most = None if least is None else least - 1, None if most is None else most - 1
        else:
            phase, fraction = FRACTION, fraction + whole
        zero = table.get(phase, least, most, whole, zeros + whole, fraction, False)
        other = table.get(phase, least, most, whole, 0, fraction, False) if whole else zero
        add(found, 48, 48, zero)
        add(found, 49, 57, other)
        if not self.gap:
            behind_point = self.phase == POINT
            after_e = None if behind_point and not table.bare_point else table.exponent(self.least, self.most)
            add(found, 69, 69, after_e)
            if table.underscores and not behind_point:
                add(found, 95, 95, table.get(
                    self.phase, self.key_least, self.key_most, whole, self.zeros, self.fraction, True))
            add(found, 101, 101, after_e)
        self._edges = tuple(found)
        return self._edges


    def for_digits(self, long long digits):
        """As `number_texts.Settled.for_digits`."""
        cdef tuple key = within(
            self.phase, self.key_least, self.key_most, self.whole, self.zeros, self.fraction, self.gap, digits)
        return self.table.named(key)


cdef tuple within(int phase, least, most, bint whole, long long zeros, long long fraction, bint gap, long long digits):
    """As `number_texts.within`."""
    cdef long long ahead = digits if phase == WHOLE else 0, near_zeros = 0, near = min(fraction, 1)
    least = None if least is None or least <= 0 else min(least, ahead + 1)
    if most is not None and most < 0:
        most, near_zeros = -1, near + whole
    elif fraction:
        most = None if most is None or most - fraction >= digits else 1 + max(most - fraction, 0)
        near_zeros = zeros >= fraction
    elif most is not None and most >= (digits if whole else ahead):
        most = None
    return phase, least, most, whole, near_zeros, near, gap


@final
cdef class SettledStates:
    """As `number_texts.SettledStates`.  start_of: makes the state behind an "e", as `number_texts.exponent`."""

    cdef readonly object spelling
    cdef dict states
    cdef object start_of
    cdef bint bare_point, underscores

    def __init__(self, spelling, start_of):
        self.spelling, self.start_of, self.states = spelling, start_of, {}
        self.bare_point, self.underscores = spelling.bare_point, spelling.underscores

    cdef get(self, int phase, least, most, bint whole, long long zeros, long long fraction, bint gap):
        """As `number_texts.SettledStates.state`."""
        cdef tuple key = (phase, least, most, whole, zeros, fraction, gap)
        cdef PyObject* known = PyDict_GetItemWithError(self.states, key)
        cdef Settled made
        if known != NULL:
            return <object>known
        spent_nearby(2)
        if len(self.states) >= MOST_STATES:
            self.forget()
        found = None
        if whole and (least is None or least < fraction - zeros):
            least = fraction - zeros
        if least is None or most is None or least <= most:
            found = made = Settled.__new__(Settled)
            made.table, made.phase, made.whole, made.gap = self, phase, whole, gap
            made.zeros, made.fraction = zeros, fraction
            made.key_least, made.key_most, made.least, made.most = key[1], most, least, most
            made.accepts = (not gap and (phase != POINT or self.bare_point)
                            and (least is None or least <= 0) and (most is None or most >= 0))
        charge(SETTLED)
        return self.states.setdefault(key, found)

    cdef named(self, tuple key):
        return self.get(key[0], key[1], key[2], key[3], key[4], key[5], key[6])

    def state(self, phase, least, most, whole, zeros, fraction, gap):
        return self.get(phase, least, most, whole, zeros, fraction, gap)

    cpdef exponent(self, least, most):
        """As `number_texts.SettledStates.exponent`."""
        found = _start(least, most, self.spelling)
        return self.start_of((least, most), self.spelling) if found is None else found

    def forget(self):
        """Empty the tables; without their edges states hold nothing but themselves."""
        for state in [*self.states.values()]:
            if state is not None:
                state._edges = None
        self.states.clear()


# ======================================================================================================================
# The states of numbers between bounds, compiled: what most numbers of schemas are read by.
#
#     Bounded ─ digits ─► Settled, where no bound is compared with any more ─ "e" ─► ExponentStart
#
# The same states with the same edges as `states` makes, for the same units of work.  All else is left to that: divisors
# other than 1, whole numbers between bounds that are none, numbers that are left out, spellings in which numbers have
# one form each.
#
# Owns: the states of each set of numbers, which are emptied as those of the plain twin are.
# Plain twin: `number_texts.MantissaStates` and its `Mantissa`; compared in tests/test_numbers_compiled.py.
# ======================================================================================================================

cdef enum:
    BELOW = -1          # as in `magnitudes`
    ABOVE = -2


cdef struct Reading:      # as `number_texts.MantissaKey`, of sets that ask for no more
    int phase
    bint started
    bint gap
    long long low
    long long high
    long long point
    long long zeros
    long long fraction
    long long read        # digits from the first one > 0 on


@final
cdef class Bound:
    """As `number_texts.Bound`."""

    def __init__(self, bound):
        self.digits, self.point, self.length, self.open = bound.digits, bound.point, len(bound.digits), bound.open

    cdef long long compare(self, long long status, int digit):
        cdef int own
        if status < 0:
            return status
        if status == self.length:
            return ABOVE if digit else status
        own = <int>(<Py_UCS4>self.digits[status]) - 48
        return BELOW if digit < own else ABOVE if digit > own else status + 1

    cdef int turns(self, long long status, bint* turns) except -1:
        cdef int own
        if 0 <= status < self.length:
            own = <int>(<Py_UCS4>self.digits[status]) - 48
            turns[own] = turns[own + 1] = True
        return 0

    cdef bint holds(self, long long status):
        """Say whether the digits are equal to the bound's, and it is a member itself."""
        return status == self.length and not self.open


@final
cdef class Bounded(Numbers):
    """As `number_texts.Mantissa`."""

    cdef BoundedStates reader
    cdef Reading key

    @property
    def goes_on(self):
        return True

    cdef made(self):
        cdef BoundedStates reader = self.reader
        cdef Reading key = self.key, other
        cdef list found = []
        cdef bint turns[12]
        cdef int first, beyond
        spent_nearby(3)
        if key.phase <= WHOLE and not key.gap:
            other = key
            other.phase = POINT
            add(found, 46, 46, reader.get(other))
        if key.phase != ZERO:
            reader.find_turns(key.low, key.high, turns)
            first = 0
            for beyond in range(1, 11):
                if beyond == 10 or turns[beyond]:
                    add(found, 48 + first, 47 + beyond, reader.after(key, first))
                    first = beyond
        after_e = self.exponent()
        add(found, 69, 69, after_e)
        if reader.underscores and (key.phase == WHOLE or key.phase == FRACTION) and not key.gap:
            other = key
            other.gap = True
            add(found, 95, 95, reader.get(other))
        add(found, 101, 101, after_e)
        self._edges = tuple(found)
        return self._edges

    def for_digits(self, long long digits):
        """As `number_texts.Settled.for_digits`: one of its states, where it makes no difference how bounds compare."""
        return self.reader.for_digits(self, digits)

    cdef exponent(self):
        if self.key.gap or self.key.phase == POINT and not self.reader.bare:
            return None
        scale = self.reader.scale(self.key)
        return None if scale is None else self.reader.settled.exponent((<tuple>scale)[0], (<tuple>scale)[1])


@final
cdef class BoundedStates:
    """As `number_texts.MantissaStates`, of numbers that `is_ordinary`.  whole: they are whole numbers."""

    cdef readonly object spelling, numbers
    cdef public object unsigned
    cdef readonly bint negative
    cdef dict states
    cdef SettledStates settled
    cdef Bound low, high
    cdef bint bare, underscores, whole, zero, positive

    def __init__(self, numbers, SettledStates settled, *, whole, negative):
        self.numbers, self.spelling, self.negative, self.states = numbers, settled.spelling, negative, {}
        self.settled = settled
        self.low = None if numbers.low is None else Bound(numbers.low)
        self.high = None if numbers.high is None else Bound(numbers.high)
        self.bare, self.underscores = settled.bare_point, settled.underscores
        self.whole, self.zero, self.positive = whole, numbers.zero, numbers.positive

    cdef get(self, Reading key):
        """As `number_texts.MantissaStates.state`."""
        cdef tuple reduced
        cdef PyObject* known
        cdef Bounded made
        cdef long long low = key.low, high = key.high, point = key.point, zeros = key.zeros, fraction = key.fraction
        cdef bint low_holds = self.low is not None and self.low.holds(key.low)
        cdef bint high_fails = self.high is not None and (
            key.high == ABOVE or key.high == self.high.length and self.high.open)
        if (key.started and (self.low is None or key.low < 0 or low_holds)
                and (self.high is None or key.high < 0 or high_fails)):
            return self.settled_state(key)
        if not self.whole:
            zeros = fraction = 0
        if self.low is None and self.high is None:
            low = high = point = 0
        low, high = ABOVE if low_holds else low, ABOVE if high_fails else high
        reduced = (key.phase, key.started, low, high, point, zeros, fraction, key.gap)
        known = PyDict_GetItemWithError(self.states, reduced)
        if known != NULL:
            return <object>known
        spent_nearby(6 + key.read // 16)
        if len(self.states) >= MOST_STATES:
            for state in self.states.values():
                if state is not None:
                    state._edges = None
            self.states.clear()
        made = Bounded.__new__(Bounded)
        made.reader, made.key = self, key
        made.accepts = self.complete(key)
        found = self.states[reduced] = made if made.accepts or self.is_live(key) else None
        return found

    cdef settled_state(self, Reading key):
        least = None if self.low is None else self.low.point - key.point + (key.low == BELOW)
        most = None if self.high is None else self.high.point - key.point - 1 + (key.high == BELOW)
        if self.whole:
            return self.settled.get(key.phase, least, most, True, key.zeros, key.fraction, key.gap)
        return self.settled.get(key.phase, least, most, False, 0, 0, key.gap)

    cdef for_digits(self, Bounded state, long long digits):
        """As `Bounded.for_digits`.  Whatever follows holds, or fails, for all outcomes between these two."""
        cdef tuple key = self.outcome(state.key, digits, True) if state.key.started else None
        if key is None or key != self.outcome(state.key, digits, False):
            return state
        return self.settled.named(key)

    cdef tuple outcome(self, Reading key, long long digits, bint strict):
        """Return the key `within` some digits of what is left if all comparisons under way end so that it is least, or
        most; None: nothing may be left."""
        cdef long long zeros = key.zeros if self.whole else 0, fraction = key.fraction if self.whole else 0
        cdef bint fails
        least = most = None
        if self.low is not None:
            fails = key.low == BELOW or strict and key.low >= 0 and not self.low.holds(key.low)
            least = self.low.point - key.point + fails
        if self.high is not None:
            fails = key.high == ABOVE or strict and key.high >= 0
            most = self.high.point - key.point - fails
            if least is not None and least > most or self.whole and fraction - zeros > most:
                return None
        return within(key.phase, least, most, self.whole, zeros, fraction, key.gap, digits)

    cdef after(self, Reading key, int digit):
        """Return the state after one more digit."""
        if key.phase == WHOLE or key.started or digit:
            return self.significant(key, digit)
        key.phase, key.fraction, key.point, key.gap = FRACTION, key.fraction + 1, key.point - 1, False
        return self.get(key)

    cdef significant(self, Reading key, int digit):
        if not self.positive:
            return None
        key.zeros = 0 if digit else key.zeros + 1
        key.low = 0 if self.low is None else self.low.compare(key.low, digit)
        key.high = 0 if self.high is None else self.high.compare(key.high, digit)
        if key.phase == WHOLE:
            key.point += 1
        else:
            key.phase, key.fraction = FRACTION, key.fraction + 1
        key.started, key.gap, key.read = True, False, key.read + 1
        return self.get(key)

    cdef int find_turns(self, long long low, long long high, bint* turns) except -1:
        """Mark the digits from which on a bound, or a divisor, may say something else."""
        cdef int digit
        for digit in range(12):
            turns[digit] = digit < 2
        if self.low is not None:
            self.low.turns(low, turns)
        if self.high is not None:
            self.high.turns(high, turns)
        return 0

    cdef scale(self, Reading key):
        """Return the exponents under which the digits so far are a member, None if there are none."""
        cdef long long least = 0, most = 0
        cdef bint some_least = False, some_most = False
        if not key.started:
            return (None, None) if self.zero else None
        if self.low is not None:
            some_least, least = True, self.low.point - key.point + (not (key.low == ABOVE or self.low.holds(key.low)))
        if self.high is not None:
            some_most = True
            most = self.high.point - key.point - (key.high == ABOVE or key.high == self.high.length and self.high.open)
        if self.whole:
            least = max(least, key.fraction - key.zeros) if some_least else key.fraction - key.zeros
            some_least = True
        if some_least and some_most and least > most:
            return None
        return (least if some_least else None, most if some_most else None)

    cdef bint complete(self, Reading key) except -1:
        """Say whether a number may end here."""
        if key.gap or key.phase == POINT and not self.bare:
            return False
        scale = self.scale(key)
        return scale is not None and ((<tuple>scale)[0] or 0) <= 0 <= ((<tuple>scale)[1] or 0)

    cdef bint is_live(self, Reading key) except -1:
        """As `number_texts.Mantissa.live`, of what is not complete."""
        cdef long long least = 0, most
        if not key.started:
            return self.zero or self.positive
        if self.high is None or self.low is None and not self.whole:
            return True
        most = self.high.point - (key.high == ABOVE or key.high == self.high.length and self.high.open)
        if self.low is not None:
            least = self.low.point + (key.low == BELOW)
        if not self.whole:
            return least <= most
        return max(least, key.read) <= most or self.scale(key) is not None

    # -- as `language` and the readers of listed numbers ask -----------------------------------------------------------

    def state(self, key, read):
        """Return the state of a reading, a `number_texts.MantissaKey` and the digits from the first one > 0 on."""
        phase, started, low, high, point, zeros, fraction, _, gap, _, _ = key
        return self.get(Reading(phase, started, gap, low, high, point, zeros, fraction, len(read)))

    def kinds(self, low, high):
        """Return the ranges of digits (first, last) that no bound tells apart."""
        cdef bint turns[12]
        cdef int first = 0, beyond
        cdef list found = []
        self.find_turns(low, high, turns)
        for beyond in range(1, 11):
            if beyond == 10 or turns[beyond]:
                found.append((first, beyond - 1))
                first = beyond
        return found

    def first(self, int digit):
        """Return the state after the first digit before the point."""
        if digit == 0:
            return self.get(Reading(ZERO, False, False, 0, 0, 0, 0, 0, 0))
        return self.significant(Reading(WHOLE, False, False, 0, 0, 0, 0, 0, 0), digit)

    def bare_point(self):
        return self.get(Reading(POINT, False, True, 0, 0, 0, 0, 0, 0))


# ======================================================================================================================
# Steps over the digits of a number that make no states: for the tokens of a vocabulary, most of which end the walk.
#
#     behind "655" of the whole numbers 0 … 65535:  "35" may end, "36" leads nowhere, "400" is live, as 655400e-2 is
# 6554
#
# A step says what the states of `settled` and `Bounded` say, by the same comparisons, one C struct for each.  Among
# the digits of an exponent there is none: see `Trie.digits`.
#
# Owns: the places on the way.  Borrows: the bounds.
# Plain twin: the edges of `Settled` and `Bounded`; compared in tests/test_numbers_compiled.py.
# PERF: a thousand tokens of digits lead through some thirty states, which took up to 80 µs to make.
# ======================================================================================================================

cdef long long _FAR = 1 << 60       # beyond all bounds of exponents


@final
cdef class DigitWalk:
    """A walk from a state; `path[d]` is the place after d bytes, and steps over byte d + 1 are taken from there."""

    def __dealloc__(self):
        free(self.path)

    def after(self, bytes text):
        """Return what a text leads to: NO_DIGITS, LIVE, ENDS; for tests."""
        cdef int depth = 0, byte, found = LIVE
        for byte in text:
            depth += 1
            found = self.step(depth, byte)
            if found == NO_DIGITS:
                break
        return found

    cdef int step(self, int depth, int byte) except -1:
        """Find the place after one byte more.

        PERF: digits > 0 lead to the same where no bound is compared with: the second of them is the first.
        """
        cdef Place* at = &self.path[depth]
        cdef bint positive = 49 <= byte <= 57
        if not (positive and at.alike):
            at[0] = at[-1]
            at.alike = positive and self.has_settled(at)
            at.found = self.moved(at, byte)
            at[1].alike = False
        return at.found

    cdef int moved(self, Place* at, int byte) except -1:
        """Go on with a byte."""
        if at.exponent:
            return self.sign(at, byte)
        if 48 <= byte <= 57:
            return self.outcome(at) if self.take_digit(at, byte - 48) else NO_DIGITS
        if at.gap:
            return NO_DIGITS
        if byte == 46 and at.phase <= WHOLE:
            at.phase = POINT
            return self.outcome(at)
        if byte == 95 and self.underscores and (at.phase == WHOLE or at.phase == FRACTION):
            at.gap = True
            return self.outcome(at)
        if (byte == 69 or byte == 101) and (at.phase != POINT or self.bare):
            return self.sign(at, byte)
        return NO_DIGITS

    cdef bint takes_digits_only(self, int depth) noexcept:
        """Say whether digits alone can follow."""
        return self.path[depth].phase == POINT and not self.bare and not self.path[depth].exponent

    cdef bint takes_signs_only(self, int depth) noexcept:
        """Say whether signs alone can follow, in tokens."""
        return self.path[depth].exponent > 0

    cdef bint takes_all_digits(self, int depth):
        """Say whether digits can follow, whichever and however many."""
        cdef Place* at = &self.path[depth]
        return not at.exponent and not (self.whole and self.has_high) and self.has_settled(at)

    cdef bint is_settled(self, int depth):
        """Say whether no bound is compared with any more: then digits > 0 lead to the same."""
        return self.has_settled(&self.path[depth])

    cdef bint take_digit(self, Place* at, int digit) except -1:
        """As `BoundedStates.after`; say whether there may be numbers."""
        at.gap = False
        if at.phase == ZERO:
            return False
        if not at.started and not digit and at.phase != WHOLE:
            at.phase, at.fraction, at.point = FRACTION, at.fraction + 1, at.point - 1
            return True
        if not self.positive:
            return False
        at.zeros = 0 if digit else at.zeros + 1
        if self.low is not None:
            at.low = self.low.compare(at.low, digit)
        if self.high is not None:
            at.high = self.high.compare(at.high, digit)
        if at.phase == WHOLE:
            at.point += 1
        else:
            at.phase, at.fraction = FRACTION, at.fraction + 1
        at.started, at.read = True, at.read + 1
        return True

    cdef int sign(self, Place* at, int byte) except -1:
        """Go on behind the mantissa: with an "e", or with the sign behind it."""
        cdef long long least, most
        cdef bint fits = self.find_interval(at, &least, &most)
        at.exponent += 1
        if at.exponent == 2:
            fits = byte == 43 and most >= 0 or byte == 45 and least <= 0
        return LIVE if fits and at.exponent <= 2 else NO_DIGITS

    cdef bint find_interval(self, Place* at, long long* least, long long* most):
        """As `BoundedStates.scale`; say whether there is an exponent."""
        least[0], most[0] = -_FAR, _FAR
        if not at.started:
            return self.zero
        if self.has_low:
            least[0] = self.low_point - at.point
            least[0] += not (at.low == ABOVE or at.low >= 0 and self.low.holds(at.low))
        if self.has_high:
            most[0] = self.high_point - at.point - self.fails_high(at)
        if self.whole:
            least[0] = max(least[0], at.fraction - at.zeros)
        return least[0] <= most[0]

    cdef bint fails_high(self, Place* at):
        """Say whether the digits are past those of the upper bound."""
        return at.high == ABOVE or at.high >= 0 and at.high == self.high.length and self.high.open

    cdef bint has_settled(self, Place* at):
        return at.started and ((not self.has_low or at.low < 0 or self.low.holds(at.low))
                               and (not self.has_high or at.high < 0 or self.fails_high(at)))

    cdef int outcome(self, Place* at) except -1:
        """As `BoundedStates.get`."""
        cdef long long least, most
        cdef bint scaled = self.find_interval(at, &least, &most)
        if scaled and least <= 0 <= most and not at.gap and (at.phase != POINT or self.bare):
            return ENDS
        if self.has_settled(at):
            return LIVE if scaled else NO_DIGITS
        return LIVE if self.may_be_met(at, scaled) else NO_DIGITS

    cdef bint may_be_met(self, Place* at, bint scaled):
        """As `BoundedStates.is_live`."""
        cdef long long least = self.low_point + (at.low == BELOW) if self.has_low else 0
        cdef long long most = self.high_point - self.fails_high(at)
        if not at.started:
            return self.zero or self.positive
        if not self.has_high or not self.has_low and not self.whole:
            return True
        if not self.whole:
            return least <= most
        return max(least, at.read) <= most or scaled


cdef DigitWalk digit_walk(object state, int deepest):
    """Return a walk from a state over texts of so many bytes at most; None: the state is of another kind.

    Of settled states those that `for_digits` returns, whose intervals are small.
    """
    cdef DigitWalk made = DigitWalk.__new__(DigitWalk)
    made.path = <Place*>malloc((<size_t>deepest + 2) * sizeof(Place))
    if made.path == NULL:
        raise MemoryError
    made.path[1].alike = False
    if type(state) is Settled:
        begin_settled(made, state)
    elif type(state) is Bounded:
        begin_bounded(made, state)
    else:
        return None
    return made


cdef int begin_settled(DigitWalk made, Settled state) except -1:
    made.whole, made.bare, made.underscores = state.whole, state.table.bare_point, state.table.underscores
    made.has_low, made.has_high = state.key_least is not None, state.key_most is not None
    made.low_point = state.key_least if made.has_low else 0
    made.high_point = state.key_most if made.has_high else 0
    made.zero, made.positive = False, True
    made.path[0] = Place(state.phase, 0, state.gap, True, ABOVE, BELOW, 0, state.zeros, state.fraction, 0, False, LIVE)
    return 0


cdef int begin_bounded(DigitWalk made, Bounded state) except -1:
    cdef BoundedStates reader = state.reader
    cdef Reading* key = &state.key
    made.whole, made.bare, made.underscores = reader.whole, reader.bare, reader.underscores
    made.low, made.high = reader.low, reader.high
    made.has_low, made.has_high = reader.low is not None, reader.high is not None
    made.low_point = reader.low.point if made.has_low else 0
    made.high_point = reader.high.point if made.has_high else 0
    made.zero, made.positive = reader.zero, reader.positive
    made.path[0] = Place(
        key.phase, 0, key.gap, key.started, key.low, key.high, key.point, key.zeros, key.fraction, key.read,
        False, LIVE)
    return 0


def walk_from(state, deepest):
    """Return the walk from a state, see `digit_walk`; for tests."""
    return digit_walk(state, deepest)


# ======================================================================================================================
# Nodes of subschemas, for compiled passes: `Node.below`, `Node.each_below` and `Document.follow` where they are plain.
#
# The same nodes in the same order, and the same units of work.  Dynamic scopes, chains of references and references
# with neighbours that count go to the methods of `reading.document`, which are the plain twin; compared in
# tests/test_schema_compiled.py through the passes that read schemas with these.
#
# Owns: nothing.  Borrows: the tables of documents, in which nodes and what they refer to are entered.
# ======================================================================================================================

cdef object _ALWAYS = ALWAYS, _NOTHING = NOTHING, _Node = Node, _SignedNode = SignedNode, _serials = serials
cdef object _new = object.__new__


cdef extern from "Python.h":
    ctypedef int (*descrsetfunc)(object descriptor, object owner, object value) except -1
    ctypedef struct PyTypeObject:
        descrsetfunc tp_descr_set
    PyTypeObject* Py_TYPE(object thing)


# PERF: what sets the slots of nodes; to find each by its name takes twice as long, and an object has dozens of nodes
cdef object _node = SignedNode.node, _positive = SignedNode.positive
cdef object _document = Node.document, _schema = Node.schema, _resource = Node.resource, _scope = Node.scope
cdef object _where = Node.where, _inside = Node.inside, _signed = Node.positive, _conj = Node.conj, _plan = Node.plan
cdef object _serial = Node.serial
cdef descrsetfunc _set = Py_TYPE(_node).tp_descr_set


cdef object new_node(document, schema, resource, where):
    """Return a new node, as `Node(document, schema, resource, (), where)`."""
    node = _new(_Node)
    positive = _new(_SignedNode)
    _set(_node, positive, node)
    _set(_positive, positive, True)
    _set(_document, node, document)
    _set(_schema, node, schema)
    _set(_resource, node, resource)
    _set(_scope, node, ())
    _set(_where, node, where)
    _set(_inside, node, None)
    _set(_plan, node, None)
    _set(_signed, node, positive)
    _set(_conj, node, frozenset((positive,)))
    _set(_serial, node, next(_serials))
    return node


cdef object plainly(schema):
    """Return the conjunction of a schema that says yes or no to everything; None: it says more."""
    if schema is True or type(schema) is dict and not <dict>schema:
        return _ALWAYS
    return _NOTHING if schema is False else None


cdef _entered(node, str keyword):
    """Return the place of a keyword's value, as `Node.entered`."""
    inside = node.inside
    if inside is None or (<tuple>inside)[1] is not keyword:
        inside = node.inside = (node.where, keyword)
    return inside


cdef _node_of(document, dict nodes, part, resource, where):
    """Return the node of a subschema, as `Document.node` outside of dynamic scopes."""
    place = PyLong_FromVoidPtr(<void*>part)
    cdef PyObject* known = PyDict_GetItemWithError(nodes, place)
    if known != NULL:
        return <object>known
    made = new_node(document, part, resource, where)
    nodes[place] = made
    return made


cdef bint _counts_only_reference(dict schema, rules) except -1:
    """Say whether no keyword beside a reference counts."""
    for word in schema:
        if word != "$ref" and word in rules:
            return False
    return True


cdef _followed(document, dict nodes, node):
    """Return what a node refers to that has a reference, as `Document.follow`."""
    cdef dict followed = document.followed, schema = node.schema
    cdef PyObject* known = PyDict_GetItemWithError(followed, node)
    if known != NULL:
        return <object>known
    dialect = node.resource.dialect
    rules = dialect.rules
    if "$ref" in rules and (dialect.reference_stands_alone or _counts_only_reference(schema, rules)):
        target = document.library.targets.get((PyLong_FromVoidPtr(<void*>schema), "$ref"))
        if target is not None and target.dynamic is None:
            referent = target.schema
            if type(referent) is dict and <dict>referent and "$ref" not in <dict>referent:
                spent(1, None)
                found = _node_of(document, nodes, referent, target.resource, target.where).conj
                followed[node] = found
                return found
    return document.follow(node)


cdef _conj_of(document, dict nodes, dict embedded, dict part, resource, where):
    """Return what a subschema that says something means."""
    cdef PyObject* known = PyDict_GetItemWithError(nodes, PyLong_FromVoidPtr(<void*>part))
    if known != NULL:
        node = <object>known
    else:
        known = PyDict_GetItemWithError(embedded, PyLong_FromVoidPtr(<void*>part))
        node = _node_of(document, nodes, part, resource if known == NULL else <object>known, where)
    return _followed(document, nodes, node) if "$ref" in part else node.conj


cdef object below(node, part, str keyword):
    """Return the subschema under a keyword, as `Node.below`."""
    found = plainly(part)
    if found is not None:
        return found
    document = node.document
    library = document.library
    if type(part) is not dict or node.scope or library.dynamic:
        return node.below(part, keyword)
    return _conj_of(document, document.nodes, library.embedded, <dict>part, node.resource, _entered(node, keyword))


cdef dict each_below(node, dict schemas, str keyword):
    """Return the subschemas under names in a keyword's value, as `Node.each_below`."""
    cdef Py_ssize_t position = 0
    cdef PyObject* name
    cdef PyObject* schema
    cdef dict found = {}, nodes, embedded
    document, resource = node.document, node.resource
    library = document.library
    if node.scope or library.dynamic:
        return node.each_below(schemas.items(), keyword)
    inside, nodes, embedded = _entered(node, keyword), document.nodes, library.embedded
    while PyDict_Next(schemas, &position, &name, &schema):
        part = <object>schema
        conj = plainly(part)
        if conj is None:
            if type(part) is dict:
                conj = _conj_of(document, nodes, embedded, <dict>part, resource, (inside, <object>name))
            else:
                conj = node.below(part, keyword, <object>name)
        found[<object>name] = conj
    return found


cdef bint are_near(node, list schemas) except -1:
    """Say whether some subschemas of a node belong to its resource, and no dynamic scope counts."""
    library = node.document.library
    if node.scope or library.dynamic:
        return False
    for part in schemas:
        if PyDict_GetItemWithError(library.embedded, PyLong_FromVoidPtr(<void*>part)) != NULL:
            return False
    return True


cdef list each_of(node, list schemas, str keyword):
    """Return the nodes of the subschemas in a keyword's list, which `are_near` and have no reference."""
    cdef Py_ssize_t at
    cdef dict nodes
    document, resource = node.document, node.resource
    inside, nodes = _entered(node, keyword), document.nodes
    return [_node_of(document, nodes, schemas[at], resource, (inside, at)) for at in range(len(schemas))]


# ======================================================================================================================
# Copies of schemas that are nothing but JSON, in one pass; `by_content` does the same by way of bytes.  And the size
# of anything.
#
# Owns: nothing.  Strings and numbers are shared with what is copied, as nobody can change them.
# Plain twins: `by_content._rebuilt`, `by_content._parts`; compared in tests/test_schema_leaves.py.
# ======================================================================================================================

cdef inline int _kind(object value) except -1:
    """Return 0 for what holds nothing, 1 for a dictionary, 2 for a list, 3 for what JSON lacks."""
    kind = type(value)
    if kind is str or value is None or kind is bool or kind is int:
        return 0
    if kind is dict:
        return 1
    if kind is list:
        return 2
    return 0 if kind is float and isfinite(<double>value) else 3


def plain_copy(value, Py_ssize_t most):
    """Return a deep copy of a JSON value of Python's own types, without a number that is not finite; None for any
    other, and where more than `most` values are inside.  Parts that occur twice are copied twice.

    No recursion.  Cost: 0.1 µs per container and 0.01 µs per entry.
    """
    cdef list box = [value], todo = [box], row
    cdef dict entries
    cdef PyObject* key
    cdef PyObject* part
    cdef Py_ssize_t at, position, count = 0
    cdef int kind
    while todo:
        top = todo.pop()
        if type(top) is list:
            row = <list>top
            for at in range(len(row)):
                inner = row[at]
                kind = _kind(inner)
                if kind == 3:
                    return None
                if kind:
                    count += len(inner)
                    if count > most:
                        return None
                    inner = PyDict_Copy(inner) if kind == 1 else (<list>inner)[:]
                    row[at] = inner
                    if inner:
                        todo.append(inner)
        else:
            entries, position = <dict>top, 0
            while PyDict_Next(entries, &position, &key, &part):
                if type(<object>key) is not str:
                    return None
                kind = _kind(<object>part)
                if kind == 3:
                    return None
                if kind:
                    count += len(<object>part)
                    if count > most:
                        return None
                    inner = PyDict_Copy(<object>part) if kind == 1 else (<list><object>part)[:]
                    PyDict_SetItem(entries, <object>key, inner)  # in the place of a known key: the table stays
                    if inner:
                        todo.append(inner)
    return box[0]


def is_within(values, Py_ssize_t most):
    """Return whether there are at most so many values inside of a container, in containers within it or not.

    No recursion.  Cost: 0.05 µs per container and 0.005 µs per entry.
    """
    cdef list todo = [values]
    cdef PyObject* key
    cdef PyObject* part
    cdef Py_ssize_t position, count = 0
    while todo:
        top = todo.pop()
        count += len(top)
        if count > most:
            return False
        if type(top) is dict:
            position = 0
            while PyDict_Next(<dict>top, &position, &key, &part):
                kind = type(<object>part)
                if kind is dict or kind is list or kind is tuple:
                    todo.append(<object>part)
        else:
            for inner in top:
                kind = type(inner)
                if kind is dict or kind is list or kind is tuple:
                    todo.append(inner)
    return True


# ======================================================================================================================
# A look at the keywords of a schema for a value, as `quick` does it, in one pass over most schemas.
#
# Owns: what the words of schemas ask for, as flags.  Patterns, constants that are no texts, alternatives and whatever
# else stands beside something unusual go to the functions of `quick`.
# Plain twin: `quick.looks_live`; compared in tests/test_schema_compiled.py.
# No recursion beyond `deepest`, which each step into a schema comes nearer to.
# ======================================================================================================================

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)


cdef enum:
    # what a word says: one of the demands …
    DEMANDS_REQUIRED = 1
    DEMANDS_MIN_ITEMS = 2
    DEMANDS_ENUM = 3
    DEMANDS_REFERENCE = 4
    DEMANDS_BOUND = 5
    DEMANDS_MIN_LENGTH = 6
    DEMANDS_OTHER = 7
    DEMAND = 7          # the bits of a demand
    # … or that it may refuse what another one demands
    OF_KEYS = 8
    OF_ITEMS = 16
    OF_OTHER_KEYS = 32
    OF_FORMAT = 64
    OF_LENGTH = 128

cdef dict _DEMANDS = {
    "required": DEMANDS_REQUIRED, "minItems": DEMANDS_MIN_ITEMS, "enum": DEMANDS_ENUM, "$ref": DEMANDS_REFERENCE,
    "minLength": DEMANDS_MIN_LENGTH,
}


@final
cdef class Glance:
    """A callable: schema, targets of references, depth → whether a value is seen; False says nothing.

    others: what looks at a schema with demands that are not plain; room: characters in which each format has a text.
    """

    def __init__(self, others, int deepest, *, long room, demanding, bounds, keys, items, other_keys):
        self.others, self.deepest, self.room = others, deepest, room
        self.words = {
            word: DEMANDS_BOUND if word in bounds else _DEMANDS.get(word, DEMANDS_OTHER) for word in demanding}
        for words, flag in ((keys, OF_KEYS), (items, OF_ITEMS), (other_keys, OF_OTHER_KEYS)):
            for word in words:
                self.words[word] = self.words.get(word, 0) | flag
        self.words["format"], self.words["maxLength"] = OF_FORMAT, OF_LENGTH

    def __call__(self, schema, targets, int depth=0):
        return self.look(schema, targets, depth)

    cdef bint look(self, schema, targets, int depth) except -1:
        cdef Py_ssize_t position = 0
        cdef PyObject* word
        cdef PyObject* value
        cdef PyObject* known
        cdef PyObject* demanded = NULL
        cdef int flag, flags = 0, demand = 0, demands = 0
        if type(schema) is not dict:
            return schema is True
        while PyDict_Next(schema, &position, &word, &value):
            known = PyDict_GetItemWithError(self.words, <object>word)
            if known != NULL:
                flag = PyLong_AsLong(<object>known)
                flags |= flag
                if flag & DEMAND:
                    demand, demanded = flag & DEMAND, value
                    demands += 1
        if not demands:
            if flags & OF_FORMAT and flags & OF_LENGTH and not self.has_room((<dict>schema)["maxLength"]):
                return False
            return (<dict>schema).get("type") != []
        if depth >= self.deepest:
            return False
        known = PyDict_GetItemWithError(schema, "type")
        if demands == 1 and (known == NULL or type(<object>known) is str):
            given = <object>demanded
            kind = None if known == NULL else <object>known
            if demand == DEMANDS_REQUIRED:
                if kind == "object" and type(given) is list and not flags & OF_KEYS:
                    return self.has_keys(schema, given, not flags & OF_OTHER_KEYS, targets, depth)
            elif demand == DEMANDS_MIN_ITEMS:
                if kind == "array" and not flags & OF_ITEMS:
                    return self.look((<dict>schema).get("items", True), targets, depth + 1)
            elif demand == DEMANDS_ENUM:
                if (kind is None or kind == "string") and not flags & (OF_FORMAT | OF_LENGTH) and _has_text(given):
                    return True
            elif demand == DEMANDS_REFERENCE:
                if len(<dict>schema) == 1:
                    target = targets.get((PyLong_FromVoidPtr(<void*>schema), "$ref"))
                    if target is None or target.dynamic is not None:
                        return False
                    return self.look(target.schema, targets, depth + 1)
            elif demand == DEMANDS_BOUND:
                return kind == "integer" or kind == "number"
            elif demand == DEMANDS_MIN_LENGTH and not flags & (OF_LENGTH | OF_FORMAT):
                return kind == "string"
        return self.others(schema, targets, depth)

    cdef bint has_room(self, most) except -1:
        """Say whether each format has a text of one character to so many."""
        return type(most) is int and most >= self.room

    cdef bint has_keys(self, dict schema, list required, bint is_open, targets, int depth) except -1:
        """Say whether the keys that an object requires have values."""
        cdef PyObject* known
        cdef dict properties = None
        known = PyDict_GetItemWithError(schema, "properties")
        if known != NULL:
            if type(<object>known) is not dict:
                return self.others(schema, targets, depth)
            properties = <dict>known
        for key in required:
            if type(key) is not str or not PyUnicode_IS_ASCII(key):
                return self.others(schema, targets, depth)
            known = NULL if properties is None else PyDict_GetItemWithError(properties, key)
            if not (is_open if known == NULL else self.look(<object>known, targets, depth + 1)):
                return False
        return True


cdef bint _has_text(values) except -1:
    """Say whether there is a text that can be spelled, as one of ASCII can."""
    if type(values) is list:
        for value in <list>values:
            if type(value) is str and PyUnicode_IS_ASCII(value):
                return True
    return False


# ======================================================================================================================
# Whether a schema is plain, as `quick.is_plain` says it, in one pass.
#
# Owns: what its words say, as numbers.  Texts that are not ASCII, and whether bounds agree, are left to the functions
# of `quick`.
# Plain twin: `quick.looks_plain`; compared in tests/test_schema_compiled.py. No recursion beyond the depth that it is
# given.
# ======================================================================================================================

cdef enum:
    SAYS_TYPE = 1
    SAYS_PROPERTIES = 2
    SAYS_REQUIRED = 3
    SAYS_ENUM = 4
    SAYS_ITEMS = 5
    SAYS_OTHER_KEYS = 6
    SAYS_NOTE = 7
    SAYS_NUMBER = 8

cdef dict _SAYS = {
    "type": SAYS_TYPE, "properties": SAYS_PROPERTIES, "required": SAYS_REQUIRED, "enum": SAYS_ENUM, "items": SAYS_ITEMS,
    "additionalProperties": SAYS_OTHER_KEYS,
}


@final
cdef class PlainSight:
    """A callable: schema, depth → whether it is plain.

    is_spelled: of a text.  bounds_agree: of a schema whose bounds are plain by themselves.
    """

    cdef dict words
    cdef frozenset types
    cdef object is_spelled, bounds_agree
    cdef int deepest

    def __init__(self, types, notes, numbers, int deepest, is_spelled, bounds_agree):
        self.words = {**dict.fromkeys(notes, SAYS_NOTE), **dict.fromkeys(numbers, SAYS_NUMBER), **_SAYS}
        self.types, self.deepest, self.is_spelled, self.bounds_agree = types, deepest, is_spelled, bounds_agree

    def __call__(self, schema):
        return self.look(schema, self.deepest)

    cdef bint look(self, schema, int depth) except -1:
        cdef Py_ssize_t position = 0
        cdef PyObject* word
        cdef PyObject* value
        cdef PyObject* known
        cdef bint bounded = False
        cdef int says
        if type(schema) is not dict or not depth:
            return False
        while PyDict_Next(schema, &position, &word, &value):
            known = PyDict_GetItemWithError(self.words, <object>word)
            if known == NULL:
                return False
            says = PyLong_AsLong(<object>known)
            if says == SAYS_TYPE:
                if not self.is_type(<object>value):
                    return False
            elif says == SAYS_PROPERTIES:
                if not self.are_properties(<object>value, depth):
                    return False
            elif says == SAYS_REQUIRED:
                if not self.are_required(<object>value, schema):
                    return False
            elif says == SAYS_ENUM:
                if not self.are_members(<object>value, schema):
                    return False
            elif says == SAYS_ITEMS:
                if not self.look(<object>value, depth - 1):
                    return False
            elif says == SAYS_OTHER_KEYS:
                if <object>value is not False:
                    return False
            elif says == SAYS_NUMBER:
                if not _is_bound(<object>value):
                    return False
                bounded = True
        return not bounded or self.bounds_agree(schema)

    cdef bint is_type(self, value) except -1:
        if type(value) is str:
            return value in self.types
        if type(value) is not list or not value:
            return False
        for name in <list>value:
            if type(name) is not str or name not in self.types:
                return False
        return True

    cdef bint are_properties(self, value, int depth) except -1:
        cdef Py_ssize_t position = 0
        cdef PyObject* name
        cdef PyObject* part
        if type(value) is not dict:
            return False
        while PyDict_Next(value, &position, &name, &part):
            if type(<object>name) is not str or not self.look(<object>part, depth - 1):
                return False
        return True

    cdef bint are_required(self, value, dict schema) except -1:
        cdef PyObject* properties
        if type(value) is not list or not _has_type(schema, "object"):
            return False
        properties = PyDict_GetItemWithError(schema, "properties")
        if properties == NULL or type(<object>properties) is not dict:
            return properties == NULL and not value
        for name in <list>value:
            if type(name) is not str or not PyDict_Contains(<object>properties, name) or not self.has_spelling(name):
                return False
        return True

    cdef bint are_members(self, value, dict schema) except -1:
        if type(value) is not list or not value:
            return False
        if PyDict_GetItemWithError(schema, "type") != NULL and not _has_type(schema, "string"):
            return False
        for member in <list>value:
            if type(member) is not str or not self.has_spelling(member):
                return False
        return True

    cdef bint has_spelling(self, text) except -1:
        return PyUnicode_IS_ASCII(text) or self.is_spelled(text)


cdef bint _has_type(dict schema, str name) except -1:
    cdef PyObject* known = PyDict_GetItemWithError(schema, "type")
    return known != NULL and type(<object>known) is str and <object>known == name


cdef bint _is_bound(value) except -1:
    return type(value) is int and 0 <= value < (<object>1 << 31)


# ======================================================================================================================
# `is_never` of what is known or plainly live, which is asked of every key that an object has.
#
# Owns: nothing.  Borrows: the answers of documents, in which those that are found are entered.
# Plain twin: `normalise.PlainAsker`; compared in tests/test_schema_compiled.py.
# ======================================================================================================================

@final
cdef class Asker:
    """Asks whether conjunctions have values.  decide: what finds out, of a conjunction that is not plainly live."""

    def __init__(self, Glance glance, decide):
        self.glance, self.decide = glance, decide

    def is_never(self, conj):
        """Return whether no value belongs to a conjunction.

        Raises: as `normalise`.
        """
        return not self.live(conj)

    def is_live(self, conj):
        """Return whether some value belongs to a conjunction; errors as of `is_never`."""
        return self.live(conj)

    cdef bint live(self, conj) except -1:
        cdef PyObject* known
        if not conj:
            return True
        signed = next(iter(conj))
        node = signed.node
        document = node.document
        live = document.live
        known = PyDict_GetItemWithError(live, conj)
        if known != NULL:
            return <object>known
        schema = node.schema
        if len(conj) == 1 and signed.positive and schema and self.glance.look(schema, document.library.targets, 0):
            live[conj] = True
            return True
        return self.decide(conj)

    def has_required(self, shape):
        """Return whether the shape has an object, if it is enough that what it requires has values; each is asked."""
        cdef dict named
        cdef bint found = True
        required = shape.required
        if shape.clauses or len(required) < shape.min:
            return False
        if required:
            named = dict(shape.named)
            for key in required:
                if not self.live(named[key]):
                    found = False
        return found


# ======================================================================================================================
# Which schemas are plain: what their keywords say, as bits, and the kinds of what may be said together.
#
# For `Reader`, which gives plain schemas their normal form.  What has an unusual form is not plain.
# ======================================================================================================================

cdef dict _WORDS = {
    "type": TYPE, "properties": PROPERTIES, "required": REQUIRED, "additionalProperties": ADDITIONAL, "items": ITEMS,
    "minItems": LEAST, "maxItems": MOST, "uniqueItems": UNIQUE, "enum": ENUM, "const": CONST,
    "minLength": SHORTEST, "maxLength": LONGEST, "nullable": NULLABLE, "pattern": PATTERN, "format": FORMAT,
    "minimum": LOWEST, "maximum": HIGHEST, "anyOf": ANY_OF, "oneOf": ONE_OF,
}
cdef dict _TYPE_BITS = TYPE_BITS
cdef int _OBJECT = OBJECT, _ARRAY = ARRAY, _STRING = TYPE_BITS["string"], _NULL = TYPE_BITS["null"]
cdef int _NUMBER = TYPE_BITS["number"]


def words_of(keywords):
    """Return what words say, of a dialect's keywords and `nullable`."""
    return {word: _WORDS.get(word, OTHER) for word in (*keywords, "nullable")}


cdef bint _are_names(keys, bint or_null=False) except -1:
    """Say whether keys are texts of ASCII, which all ways of writing spell."""
    for key in keys:
        if not (type(key) is str and PyUnicode_IS_ASCII(key) or or_null and key is None):
            return False
    return True


cdef int types_of(dict schema) except -1:
    """Return the bits of the types that a schema says it is of; 0: it does not."""
    cdef int bits = 0
    cdef PyObject* known = PyDict_GetItemWithError(schema, "type")
    if known == NULL:
        return 0
    if type(<object>known) is str:
        return _TYPE_BITS.get(<object>known, 0)
    if type(<object>known) is list:
        for name in <list><object>known:
            if type(name) is not str:
                return 0
            bits |= <int>_TYPE_BITS.get(name, 0)
    return bits


cdef bint _is_plain_value(int says, value) except -1:
    """Say whether the value of a keyword is of the usual form."""
    if says == PROPERTIES:
        return type(value) is dict and _are_names(<dict>value)
    if says == REQUIRED:
        return type(value) is list and _are_names(<list>value)
    if says == ITEMS:
        return type(value) is dict or type(value) is bool
    if says & (LEAST | MOST | SHORTEST | LONGEST):
        return type(value) is int and value >= 0
    if says == UNIQUE:
        return type(value) is bool
    if says & (LOWEST | HIGHEST):
        return type(value) is int
    if says == ENUM:
        return type(value) is list and value and _are_names(<list>value, True)
    if says & (ANY_OF | ONE_OF):
        return type(value) is list
    if says & (PATTERN | FORMAT):
        return type(value) is str
    if says == CONST:
        return type(value) is str and PyUnicode_IS_ASCII(value)
    return True


cdef int plain_words(dict schema, dict words) except -1:
    """Return what the keywords of a schema say, as bits; 0: something is unusual."""
    cdef Py_ssize_t position = 0
    cdef PyObject* word
    cdef PyObject* value
    cdef PyObject* known
    cdef int says, said = 0
    while PyDict_Next(schema, &position, &word, &value):
        known = PyDict_GetItemWithError(words, <object>word)
        if known == NULL:
            continue
        says = PyLong_AsLong(<object>known)
        if says == OTHER or not _is_plain_value(says, <object>value):
            return 0
        said |= says
    return said


cdef int kind_of(int said, int types) noexcept:
    """Return the kind of plain schema that says this, and is of these types; 0: it is not plain."""
    cdef int nested = types & (_ARRAY | _OBJECT), more = said & ~OF_TYPES
    if said == ANY_OF or said == ONE_OF:
        return said
    if said & LISTED:
        return LISTED if (said & ~TYPE == ENUM or said & ~TYPE == CONST) and not types & ~(_STRING | _NULL) and (
            (types != 0) == ((said & TYPE) != 0)) else 0
    if said and not said & ~OF_ANYTHING:
        return OF_ANYTHING
    if nested == _OBJECT:
        return 0 if said & ~OF_OBJECTS else OF_OBJECTS
    if nested == _ARRAY:
        return 0 if said & ~OF_ARRAYS else OF_ARRAYS
    if nested or not types:
        return 0
    if not more:
        return OF_TYPES
    if not more & ~OF_BOUNDS:
        return OF_BOUNDS if types & _NUMBER else 0
    return OF_LENGTHS if types & _STRING and (more == PATTERN or more == FORMAT or not more & ~OF_LENGTHS) else 0


# ======================================================================================================================
# Objects whose keys are in sight, of many tools at once: what a kernel asks of `beginnings.UnreadObject`.
#
# Owns: the names of plain schemas.  Borrows: what `beginnings.Parts` has made of them, which it adds to.
# Plain twins: `UnreadObject.plain_table` and `Parts.state`, which names schemas by their content; compared in
# tests/test_waiting_arguments.py.
# ======================================================================================================================

cdef enum:
    MOST_BITS = 62      # keys whose mask is one number of C
    DEEPEST = 8         # of schemas that have a name
    IN_OBJECT = 0          # what a part of a name was
    IN_ARRAY = 1

cdef object _Table = ObjectTable, _new_tuple = tuple.__new__


@final
cdef class Values:
    """A callable: number of a key → what reads its value."""

    cdef dict properties, made
    cdef tuple names
    cdef frozenset notes
    cdef object state

    def __call__(self, Py_ssize_t which):
        cdef PyObject* known
        schema = self.properties[self.names[which]]
        name = schema_name(schema, self.notes)
        if name is None:
            return self.state(schema)
        known = PyDict_GetItemWithError(self.made, name)
        if known != NULL:
            return <object>known
        made = self.made[name] = self.state(schema)
        return made


def table_in_sight(dict properties, required, bint ordered, quoting, tuple punctuation, parts):
    """Return the facts about an object that has these keys and no others."""
    cdef list names = sorted(properties), order = None
    cdef Py_ssize_t at, count = len(names)
    cdef dict index = {}
    cdef unsigned long long bits = 0
    cdef Values values = Values.__new__(Values)
    for at in range(count):
        index[names[at]] = at
    needed, usable = 0, (<object>1 << count) - 1
    if required and count > MOST_BITS:
        needed = mask_of([index[name] for name in required], count)
    elif required:
        for name in required:
            at = index[name]
            bits |= <unsigned long long>1 << at
        needed = bits
    if ordered:
        order = [index[name] for name in properties]
    values.properties, values.names, values.made = properties, tuple(names), parts.made
    values.notes, values.state = parts.notes, parts.state
    return _new_tuple(_Table, (
        values.names, needed, usable, frozenset(names), (), values, (), 0, None, quoting, *punctuation, order, (),
    ))


cpdef schema_name(schema, frozenset notes):
    """Return a name of a schema without its notes, equal only for equal schemas of equal types in equal order; None: it
    holds what has no such name."""
    return part_name(<dict>schema, notes, DEEPEST) if type(schema) is dict else None


cdef tuple part_name(dict schema, frozenset notes, int depth):
    cdef Py_ssize_t position = 0
    cdef PyObject* word
    cdef PyObject* value
    cdef list found = [IN_OBJECT]
    if not depth:
        return None
    while PyDict_Next(schema, &position, &word, &value):
        if notes is not None and <object>word in notes:
            continue
        part = <object>value
        if type(part) is dict:
            part = part_name(<dict>part, None, depth - 1)
        elif type(part) is list:
            part = list_name(<list>part)
        elif type(part) is not str and type(part) is not int:
            return None
        if part is None or type(<object>word) is not str:
            return None
        found.append(<object>word)
        found.append(part)
    return tuple(found)


cdef tuple list_name(list texts):
    for text in texts:
        if type(text) is not str:
            return None
    return (IN_ARRAY, *texts)
