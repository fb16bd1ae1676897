# cython: language_level=3
"""What is left of a number once no bound is compared with any digit of it, compiled: the states of `settled`, and
those of exponents.

The same states with the same edges, for the same units of work.

Owns: its tables, which are emptied as those of the plain twins are.
Plain twins: `settled.SettledStates`, `exponents.ExponentStart` and `Digits`; compared in
tests/test_numbers_compiled.py.
"""
from cpython.dict cimport PyDict_GetItemWithError
from cpython.ref cimport PyObject
from cython cimport final
from constrained._work cimport spent_nearby

from constrained.caches import charge, forgets

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
    """Add the edge of a range of characters that comes after all others, as `exponents.joined` does."""
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
    """As `exponents.Digits`."""

    cdef long long low, high, value
    cdef bint endless, empty, underscores, gap

    cdef made(self):
        spent_nearby(3)
        self._edges = tuple(self.listed())
        return self._edges

    def targets(self):
        """Return the edges, as `exponents.Digits` lists them."""
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
    """As `exponents.starts`."""
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
    """As `exponents.ExponentStart`."""

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
    """Return the state behind an "e" in a spelling that is not canonical, as `exponents.exponent`; None: a bound of the
    interval is large.
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
    """As `settled.Settled`."""

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
        """As `settled.Settled.for_digits`."""
        cdef tuple key = within(
            self.phase, self.key_least, self.key_most, self.whole, self.zeros, self.fraction, self.gap, digits)
        return self.table.named(key)


cdef tuple within(int phase, least, most, bint whole, long long zeros, long long fraction, bint gap, long long digits):
    """As `settled.within`."""
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
    """As `settled.SettledStates`.  start_of: makes the state behind an "e", as `exponents.exponent`, of any bounds."""

    def __init__(self, spelling, start_of):
        self.spelling, self.start_of, self.states = spelling, start_of, {}
        self.bare_point, self.underscores = spelling.bare_point, spelling.underscores

    cdef get(self, int phase, least, most, bint whole, long long zeros, long long fraction, bint gap):
        """As `settled.SettledStates.state`."""
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
        """As `settled.SettledStates.exponent`."""
        found = _start(least, most, self.spelling)
        return self.start_of((least, most), self.spelling) if found is None else found

    def forget(self):
        """Empty the tables; without their edges states hold nothing but themselves."""
        for state in [*self.states.values()]:
            if state is not None:
                state._edges = None
        self.states.clear()


