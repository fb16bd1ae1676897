"""The base of everything compiled: units of work, counted and refused, and ranges of a text that stand for it.

    Budget      what an operation may still do; `constrained.work` opens and closes it, compiled passes spend it
    TextRange   a part of a text that is found again by content without being copied
"""
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_FromVoidPtr

from gc import collect


# ======================================================================================================================
# Budgets of work, and what takes units off the one of a thread: asked for before everything that computes.
#
# What happens where units run out, or the clock is looked at, is left to `work`.
# Plain twins: `work.PlainBudget`, `work.plain_spend`, `work.plain_spend_nearby`; compared in tests/test_work.py.
# ======================================================================================================================

cdef long long _NO_LIMIT = 1 << 62     # as in `work`; no budget has more
cdef long long _GIVEN = 1 << 61         # units that are given back at once; more are as many
cdef long long _CHECK
cdef long long _taken = 0               # units that all budgets of the process have lost, for those who measure
cdef object _thread, _look, _nearby, _placed, _now, _defaults


def use(thread, *, look, nearby, placed, now, defaults, check):
    """Take what `work` knows.  thread: whose `budget` counts; look: asks whether a budget has run out; nearby, placed:
    its methods of these names; now: the clock; defaults: of limit and remedy; check: units between two looks.
    """
    global _thread, _look, _nearby, _placed, _now, _defaults, _CHECK
    _thread, _look, _nearby, _placed, _now, _defaults, _CHECK = thread, look, nearby, placed, now, defaults, check


cdef long long _units(units, long long most) except? -1:
    cdef int overflow = 0
    cdef long long found = PyLong_AsLongLongAndOverflow(units, &overflow)
    return most if overflow > 0 or found > most else found


cdef class Budget:
    """Units of work that may still be done; see `work.PlainBudget`."""

    def __init__(self, limit=..., *, deadline=None, cancelled=None, share=0, remedy=None):
        limit = _defaults[0] if limit is ... else limit
        self.limit, self.remedy = limit, _defaults[1] if remedy is None else remedy
        self.rest = self.most
        self.cancelled, self.deadline, self.share = cancelled, deadline, _units(share, _GIVEN)
        self._until = None if deadline is None else _now() + deadline
        self._next_check = max(self.rest - _CHECK, 0)

    @property
    def limit(self):
        return self.given

    @limit.setter
    def limit(self, limit):
        self.given, self.most = limit, _NO_LIMIT if limit is None else _units(limit, _NO_LIMIT)

    @property
    def left(self):
        return self.rest

    @left.setter
    def left(self, long long left):
        global _taken
        _taken += max(self.rest - left, 0)
        self.rest = left

    def refill(self, units):
        """Give units back, up to the limit."""
        self.rest = min(self.rest + _units(units, _GIVEN), self.most)
        self._next_check = max(self.rest - _CHECK, 0)

    def renew(self, done=0):
        """Begin another operation, see `work.PlainBudget`."""
        self.again(_units(done, _NO_LIMIT))

    cdef int again(self, long long done) except -1:
        global _taken
        cdef long long left = min(self.rest + self.share, self.most)
        _taken += done
        self.rest = left - done
        self._next_check = left - _CHECK if left > _CHECK else 0
        if self.deadline is not None:
            self._until = _now() + self.deadline
        return 0

    def spend(self, units):
        """Take units off.

        Raises: LimitExceeded: there were not as many left, the deadline has passed, or the caller has cancelled.
        """
        self.take(_units(units, _NO_LIMIT + 1))

    cdef int take(self, long long units) except -1:
        global _taken
        _taken += units
        self.rest -= units
        if self.rest < self._next_check:
            _look(self)
            if collector_is_off:
                collect(1)      # the young objects of a millisecond; those of a second, at its end, stop all for 50
        return 0

    def spend_nearby(self, units):
        """As `spend`, for work without a place of its own; see `work.PlainBudget`."""
        self.take_nearby(_units(units, _NO_LIMIT + 1))

    cdef int take_nearby(self, long long units) except -1:
        if self.rest - units < self._next_check:
            _nearby(self, units)
            return 0
        return self.take(units)

    def placed(self, error):
        """Return an error that names the whole, if it names no place."""
        return _placed(self, error)


cdef int spent(long long units, at) except -1:
    """As `work.spend`."""
    budget = _thread.budget
    if budget is None:
        return 0
    if at is not None:
        budget.at = at
    if type(budget) is Budget:
        return (<Budget>budget).take(units)
    budget.spend(units)
    return 0


cdef int spent_nearby(long long units) except -1:
    """As `work.spend_nearby`."""
    budget = _thread.budget
    if budget is None:
        return 0
    if type(budget) is Budget:
        return (<Budget>budget).take_nearby(units)
    budget.spend_nearby(units)
    return 0


cdef extern from "Python.h":
    int PyGC_Disable() noexcept
    int PyGC_Enable() noexcept


cdef bint collector_is_off = False      # by the holder of some kernel's lock


cdef bint put_off_collections() noexcept:
    """Switch Python's garbage collector off, but where a budget is looked at; say whether it was on."""
    global collector_is_off
    if not PyGC_Disable():
        return False
    collector_is_off = True
    return True


cdef int collections_again() noexcept:
    """Switch it on, if it was put off."""
    global collector_is_off
    if collector_is_off:
        PyGC_Enable()
        collector_is_off = False
    return 0


def taken():
    """Return how many units the budgets of the process have lost."""
    return _taken


def spend(units=1, at=None):
    """Take units off the thread's budget, see `work.plain_spend`."""
    spent(_units(units, _NO_LIMIT + 1), at)


def spend_nearby(units):
    """As `spend`, for work without a place of its own, see `work.plain_spend_nearby`."""
    spent_nearby(_units(units, _NO_LIMIT + 1))


# ======================================================================================================================
# What a `machine.LiteralSet` consists of: every text of a schema's enumeration or keys is hashed and compared often.
#
# Owns: nothing.  Borrows: the texts.
# Plain twin: `machine.PlainRange`; compared in tests/test_text_range.py.
# ======================================================================================================================

cdef class TextRange:
    """A range of a sorted tuple of texts, those of them that do not count, and how many characters were read."""

    cdef readonly tuple texts
    cdef readonly object excluded           # bit i: texts[i] does not belong to it
    cdef readonly Py_ssize_t low, high      # of the range
    cdef readonly Py_ssize_t depth

    def __init__(self, tuple texts, excluded=0, Py_ssize_t low=0, high=None, Py_ssize_t depth=0):
        self.texts, self.excluded, self.low, self.depth = texts, excluded, low, depth
        self.high = len(texts) if high is None else high

    def __eq__(self, other):
        cdef TextRange one
        if not isinstance(other, TextRange):
            return False
        one = <TextRange>other
        if self.low != one.low or self.high != one.high or self.depth != one.depth or self.excluded != one.excluded:
            return False
        return self.texts is one.texts or self.texts == one.texts

    def __hash__(self):
        return hash((PyLong_FromVoidPtr(<void*>self.texts), self.excluded, self.low, self.high, self.depth))
