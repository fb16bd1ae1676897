# cython: language_level=3
"""The states of numbers between bounds, compiled: what most numbers of schemas are read by.

    Bounded ─ digits ─► Settled, where no bound is compared with any more ─ "e" ─► ExponentStart

The same states with the same edges as `states` makes, for the same units of work.  All else is left to that: divisors
other than 1, whole numbers between bounds that are none, numbers that are left out, spellings in which numbers have one
form each.

Owns: the states of each set of numbers, which are emptied as those of the plain twin are.
Plain twin: `states.MantissaStates` and its `Mantissa`; compared in tests/test_numbers_compiled.py.
"""
from cpython.dict cimport PyDict_GetItemWithError
from cpython.ref cimport PyObject
from cython cimport final
from constrained._work cimport spent_nearby
from constrained.schema.numeric._settled cimport (
    FRACTION, MOST_STATES, POINT, WHOLE, ZERO, Numbers, SettledStates, add, within)


@final
cdef class Bound:
    """As `magnitudes.Bound`."""

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
    """As `states.Mantissa`."""

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
        """As `settled.Settled.for_digits`: one of its states, where it makes no difference how bounds compare."""
        return self.reader.for_digits(self, digits)

    cdef exponent(self):
        if self.key.gap or self.key.phase == POINT and not self.reader.bare:
            return None
        scale = self.reader.scale(self.key)
        return None if scale is None else self.reader.settled.exponent((<tuple>scale)[0], (<tuple>scale)[1])


@final
cdef class BoundedStates:
    """As `states.MantissaStates`, of numbers that `is_ordinary`.  whole: they are whole numbers."""

    def __init__(self, numbers, SettledStates settled, *, whole, negative):
        self.numbers, self.spelling, self.negative, self.states = numbers, settled.spelling, negative, {}
        self.settled = settled
        self.low = None if numbers.low is None else Bound(numbers.low)
        self.high = None if numbers.high is None else Bound(numbers.high)
        self.bare, self.underscores = settled.bare_point, settled.underscores
        self.whole, self.zero, self.positive = whole, numbers.zero, numbers.positive

    cdef get(self, Reading key):
        """As `states.MantissaStates.state`."""
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
        """As `states.Mantissa.live`, of what is not complete."""
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
        """Return the state of a reading, a `states.MantissaKey` and the digits from the first one > 0 on."""
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
