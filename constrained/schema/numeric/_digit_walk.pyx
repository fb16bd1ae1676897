# cython: language_level=3
"""Steps over the digits of a number that make no states: for the tokens of a vocabulary, most of which end the walk.

    behind "655" of the whole numbers 0 … 65535:  "35" may end, "36" leads nowhere, "400" is live, as 655400e-2 is 6554

A step says what the states of `settled` and `_bounded` say, by the same comparisons, one C struct for each.  Among the
digits of an exponent there is none: see `Trie.digits`.

Owns: the places on the way.  Borrows: the bounds.
Plain twin: the edges of `Settled` and `Bounded`; compared in tests/test_numbers_compiled.py.
PERF: a thousand tokens of digits lead through some thirty states, which took up to 80 µs to make.
"""
from cython cimport final
from libc.stdlib cimport free, malloc
from constrained.schema.numeric._bounded cimport ABOVE, BELOW, Bound, Bounded, BoundedStates, Reading
from constrained.schema.numeric._settled cimport FRACTION, POINT, WHOLE, ZERO, Settled

cdef long long _FAR = 1 << 60       # beyond all bounds of exponents


@final
cdef class DigitWalk:
    """A walk from a state; `path[d]` is the place after d bytes, and steps over byte d + 1 are taken from there."""

    def __dealloc__(self):
        free(self.path)

    def after(self, bytes text):
        """Return what a text leads to: DEAD, LIVE, ENDS; for tests."""
        cdef int depth = 0, byte, found = LIVE
        for byte in text:
            depth += 1
            found = self.step(depth, byte)
            if found == DEAD:
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
            return self.outcome(at) if self.take_digit(at, byte - 48) else DEAD
        if at.gap:
            return DEAD
        if byte == 46 and at.phase <= WHOLE:
            at.phase = POINT
            return self.outcome(at)
        if byte == 95 and self.underscores and (at.phase == WHOLE or at.phase == FRACTION):
            at.gap = True
            return self.outcome(at)
        if (byte == 69 or byte == 101) and (at.phase != POINT or self.bare):
            return self.sign(at, byte)
        return DEAD

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
        return LIVE if fits and at.exponent <= 2 else DEAD

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
            return LIVE if scaled else DEAD
        return LIVE if self.may_be_met(at, scaled) else DEAD

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
