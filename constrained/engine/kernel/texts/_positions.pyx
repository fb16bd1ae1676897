# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
r"""Positions inside a text: spelling, language, and where a reader is inside one character; interned as ints.

What is added to the twin for speed: positions are ints; and a started character all of whose completions lead to the
same language forgets what it has spelled (places ..._ANY), so that a free text has some twenty positions instead of
thousands.

Owns: spellings, tables of ranges, positions.  Borrows: the languages.
Invariant: every position is live, i.e. some bytes lead from it to the end of a text.
Plain twin: `engine.twin.text.TextAt`, place by place.
"""
from cython cimport final
from libc.stdint cimport int32_t, uint64_t, uint8_t
from libc.string cimport memset
from constrained.engine.memory._memory cimport cleared, enlarged, released
from constrained.engine.kernel.texts._languages cimport LanguageAt, Languages, LiteralTexts, MIXED, NONE
from constrained.engine.kernel._tables cimport Map, map_free, map_get, map_put, map_room, pair
from constrained.engine.kernel.texts._marks cimport mark_escape, mark_range
from constrained.engine.kernel.texts._ranges cimport RangeSets, holds, not_below, ranges_add, ranges_free

from array import array

from constrained.regex.guarded import ESCAPED

# by id: the ranges of the spellings, a few for good, and their ends
cdef dict flat_ranges = {}


cdef bytes flat(tuple ranges):
    """Return the lower ends of ranges, and behind them the upper ones, as they lie in memory.

    PERF: what repr() leaves as it is are 700 ranges, which took a new kernel 0.1 ms.
    """
    known = flat_ranges.get(id(ranges))
    if known is None:
        ends = array("i", [low for low, _ in ranges] + [high for _, high in ranges]).tobytes()
        known = flat_ranges[id(ranges)] = (ranges, ends)
    return known[1]


@final
cdef class Positions:
    """Positions by number; `step` is where a byte leads."""

    def __cinit__(self, Languages languages):
        self.languages = languages
        self.spellings = <Spelling*>cleared(MOST_SPELLINGS, sizeof(Spelling))
        self.spelling_ids, self.range_tables, self.spelling_objects = {}, [], []

    def __dealloc__(self):
        self.release()
        released(self.spellings)

    cdef void release(self) noexcept:
        released(self.at)
        self.at, self.count, self.room = NULL, 0, 0
        map_free(&self.ids)
        ranges_free(&self.tables)

    cdef int clear(self) except -1:
        """Give all memory back; no position has a number any more."""
        self.release()
        self.spelling_count = 0
        self.spelling_ids, self.range_tables, self.spelling_objects = {}, [], []
        return 0

    # -- spellings -----------------------------------------------------------------------------------------------------

    cdef int table(self, tuple ranges) except -1:
        cdef bytes ends
        if ranges in self.range_tables:
            return self.range_tables.index(ranges)
        ends = flat(ranges)
        ranges_add(&self.tables, <const int32_t*><const char*>ends, len(ranges))
        self.range_tables.append(ranges)
        return len(self.range_tables) - 1

    cdef int spelling(self, object spelling) except -1:
        known = self.spelling_ids.get(id(spelling))
        if known is not None:
            return known[1]
        cdef int fresh = self.spelling_count
        cdef Spelling* s = &self.spellings[fresh]
        cdef int i = 0
        assert fresh < MOST_SPELLINGS and len(spelling.short) <= 16 and len(spelling.hexes) <= 3
        s.closing, s.raw, s.escapes = spelling.closing, self.table(spelling.raw), spelling.escapes
        s.octal, s.continuation = spelling.octal, spelling.continuation
        s.escaped = ESCAPED if spelling.guarded else 0
        for byte, point in spelling.short:
            s.short_byte[i], s.short_point[i] = byte, point
            i += 1
        s.shorts, i = i, 0
        for form in spelling.hexes:
            s.hex_form[i].letter, s.hex_form[i].digits = form.letter, form.digits
            s.hex_form[i].upper, s.hex_form[i].pairs = form.upper, form.pairs
            s.hex_form[i].table, s.hex_form[i].needed = self.table(form.allowed), self.table(form.needed)
            i += 1
        s.hexes = i
        del self.spelling_objects[fresh:]
        self.spelling_objects.append(spelling)
        self.spelling_ids[id(spelling)] = (spelling, fresh)
        self.spelling_count += 1
        return fresh

    cdef int probe(self, int language, int low, int high, int table, int more) except -3:
        """As `Languages.after`, for the code points of [low, high] that the table allows, `more` added; one target only
        if it allows all of them."""
        cdef const RangeSets* tables = &self.tables
        cdef int at = not_below(tables, table, low), last = tables.first.at[table + 1], a, b, found
        if low > high:
            return NONE
        while at < last and tables.low.at[at] <= high:
            a, b = max(low, tables.low.at[at]), min(high, tables.high.at[at])
            found = self.languages.after(language, a + more, b + more)
            if found != NONE:
                return found if a == low and b == high else MIXED
            at += 1
        return NONE

    # -- positions -----------------------------------------------------------------------------------------------------

    cdef int intern(self, int spelling, int place, int language, int left, int value, int form, int high) except -1:
        cdef uint64_t a = pair(language, (spelling << 24) | (place << 16) | (left << 8) | form), b = pair(value, high)
        cdef int known
        cdef LanguageAt* of = &self.languages.at[language]
        # PERF: kept with the language, not in a table
        cdef bint simple = place == BODY and of.spelling in (-1, spelling)
        if simple and of.spelling == spelling:
            return of.body
        known = -1 if simple else map_get(&self.ids, a, b)
        if known >= 0:
            return known
        known = self.count
        if known == self.room:
            self.at = <Position*>enlarged(self.at, &self.room, sizeof(Position), 64)
        if not simple:
            map_room(&self.ids)
        cdef Position* p = &self.at[known]
        p.language, p.value, p.high = language, value, high
        p.spelling, p.place, p.left, p.form = spelling, place, left, form
        self.count += 1
        if simple:
            of.spelling, of.body = spelling, known
        else:
            map_put(&self.ids, a, b, known)
        return known

    cdef int body(self, int spelling, int language) except -1:
        return self.intern(spelling, BODY, language, 0, 0, 0, 0)

    cdef bint accepting(self, int position) except -1:
        cdef Position p = self.at[position]
        return p.place == DONE or (p.place == BODY and self.spellings[p.spelling].closing < 0
                                   and self.languages.at[p.language].accepts)

    cdef bint reads(self, int position) except -1:
        """Say whether any byte can follow; every place inside a character is live."""
        cdef Position p = self.at[position]
        if p.place == DONE:
            return False
        if p.place != BODY or self.spellings[p.spelling].closing >= 0:
            return True
        return self.languages.at[p.language].goes_on or self.languages.after(p.language, 0, 0x10FFFF) != NONE

    cdef int label(self, int position) noexcept:
        return self.languages.at[self.at[position].language].low

    cdef int letter(self, int spelling, int point) noexcept:
        """Return what a language reads an escaped character as."""
        cdef Spelling* s = &self.spellings[spelling]
        return point + s.escaped if s.escaped and holds(&self.tables, s.raw, point) else point

    cdef int after(self, int spelling, int language, int point, bint raw) except -2:
        cdef int letter = point if raw else self.letter(spelling, point)
        cdef int target = self.languages.after(language, letter, letter)
        return NONE if target < 0 else self.intern(spelling, BODY, target, 0, 0, 0, 0)

    cdef int step(self, int position, int byte) except -2:
        cdef Position p = self.at[position]
        cdef int digit
        if p.place == BODY:
            return self.step_body(p, byte)
        if p.place == UTF8:
            if not 0x80 <= byte < 0xC0:
                return NONE
            if p.value == 0 and ((p.left == 2 and byte < 0xA0) or (p.left == 3 and byte < 0x90)):
                return NONE
            return self.utf8(p, p.left - 1, p.value << 6 | byte & 0x3F)
        if p.place == UTF8_ANY:
            if not 0x80 <= byte < 0xC0:
                return NONE
            return self.intern(p.spelling, UTF8_ANY if p.left > 1 else BODY, p.language, p.left - 1, 0, 0, 0)
        if p.place == ESCAPE:
            return self.step_escape(p, byte)
        if p.place == OCTAL:
            if p.left and 0x30 <= byte < 0x38:
                return self.octal(p, p.left - 1, p.value * 8 + byte - 0x30)
            digit = self.after(p.spelling, p.language, p.value, False)
            return self.step_body(self.at[digit], byte) if digit >= 0 else NONE
        if p.place in (PAIR, PAIR_ANY):
            return self.intern(p.spelling, p.place + 1, p.language, 4, 0, p.form, p.high) if byte == 0x5C else NONE
        if p.place in (PAIR_U, PAIR_U_ANY):
            return self.intern(p.spelling, p.place + 1, p.language, 4, 0, p.form, p.high) if byte == 0x75 else NONE
        if p.place == DONE:
            return NONE
        digit = hex_value(byte, self.spellings[p.spelling].hex_form[p.form].upper)
        if digit < 0:
            return NONE
        if p.place == HEX:
            return self.hexes(p, p.form, p.left - 1, p.value << 4 | digit)
        if p.place == HEX_LOW:
            return self.low_half(p, p.left - 1, p.value << 4 | digit)
        if p.place == HEX_LOW_ANY and ((p.left == 4 and digit != 13) or (p.left == 3 and digit < 12)):
            return NONE
        return self.intern(p.spelling, p.place if p.left > 1 else BODY, p.language, p.left - 1, 0,
                           p.form if p.left > 1 else 0, 0)

    cdef int step_body(self, Position p, int byte) except -2:
        cdef Spelling* s = &self.spellings[p.spelling]
        if byte == s.closing:
            if not self.languages.at[p.language].accepts:
                return NONE
            return self.intern(p.spelling, DONE, p.language, 0, 0, 0, 0)
        if byte == 0x5C and s.escapes:
            return self.escape(p)
        if byte < 0x80:
            if not holds(&self.tables, s.raw, byte):
                return NONE
            return self.after(p.spelling, p.language, byte, True)
        if 0xC2 <= byte < 0xE0:
            return self.utf8(p, 1, byte - 0xC0)
        if 0xE0 <= byte < 0xF0:
            return self.utf8(p, 2, byte - 0xE0)
        if 0xF0 <= byte < 0xF5:
            return self.utf8(p, 3, byte - 0xF0)
        return NONE

    cdef int utf8(self, Position p, int left, int value) except -2:
        cdef Spelling* s = &self.spellings[p.spelling]
        cdef int low = value << 6 * left, high, found
        if left == 0:
            return self.after(p.spelling, p.language, value, True) if holds(&self.tables, s.raw, value) else NONE
        high = ((value + 1) << 6 * left) - 1
        if left == 2 and value == 0:
            low = 0x800
        elif left == 3 and value == 0:
            low = 0x10000
        found = self.probe(p.language, low, high, s.raw, 0)
        if found >= 0 and low == value << 6 * left:
            return self.intern(p.spelling, UTF8_ANY, found, left, 0, 0, 0)
        return self.intern(p.spelling, UTF8, p.language, left, value, 0, 0) if found != NONE else NONE

    cdef int escape(self, Position p) except -2:
        cdef Spelling* s = &self.spellings[p.spelling]
        if not s.continuation and not self.escapes(p):
            return NONE
        return self.intern(p.spelling, ESCAPE, p.language, 0, 0, 0, 0)

    cdef bint escapes(self, Position p) except -1:
        """Say whether any escape can follow a backslash."""
        cdef Spelling* s = &self.spellings[p.spelling]
        cdef int i, letter
        for i in range(s.shorts):
            letter = self.letter(p.spelling, s.short_point[i])
            if self.languages.after(p.language, letter, letter) != NONE:
                return True
        for i in range(s.hexes):
            if self.hexes(p, i, s.hex_form[i].digits, 0) >= 0:
                return True
        for i in range(8 if s.octal else 0):
            if self.octal(p, 2, i) >= 0:
                return True
        return False

    cdef int step_escape(self, Position p, int byte) except -2:
        cdef Spelling* s = &self.spellings[p.spelling]
        cdef int i
        for i in range(s.shorts):
            if s.short_byte[i] == byte:
                return self.after(p.spelling, p.language, s.short_point[i], False)
        if byte == 0x0A and s.continuation:
            return self.body(p.spelling, p.language)
        for i in range(s.hexes):
            if s.hex_form[i].letter == byte:
                return self.hexes(p, i, s.hex_form[i].digits, 0)
        if s.octal and 0x30 <= byte < 0x38:
            return self.octal(p, 2, byte - 0x30)
        return NONE

    cdef int hexes(self, Position p, int form, int left, int value) except -2:
        """Return the position after some digits of an escape, as general or as forgetful as it can be."""
        cdef HexForm f = self.spellings[p.spelling].hex_form[form]
        cdef long low = <long>value << 4 * left, high = ((<long>value + 1) << 4 * left) - 1
        cdef int found, other, a, b, found_pair = NONE, escaped = self.spellings[p.spelling].escaped
        if low > 0x10FFFF:
            return NONE
        if left == 0:
            if f.pairs and 0xD800 <= value <= 0xDBFF:
                return self.surrogate(p, value)
            return self.after(p.spelling, p.language, value, False) if holds(&self.tables, f.table, value) else NONE
        found = self.probe(p.language, low, min(high, 0xFFFF if f.pairs else 0x10FFFF), f.table, escaped)
        if escaped:
            other = self.probe(p.language, low, min(high, 0x10FFFF), f.needed, 0)
            found = other if found == NONE else found if other == NONE else MIXED
        if f.pairs:
            a, b = max(low, 0xD800), min(high, 0xDBFF)
            if a <= b:
                found_pair = self.languages.after(p.language, combine(a, 0xDC00), combine(b, 0xDFFF))
        if found >= 0 and high <= 0x10FFFF:
            return self.intern(p.spelling, HEX_ANY, found, left, 0, form, 0)
        if found == NONE and found_pair == NONE:
            return NONE
        return self.intern(p.spelling, HEX, p.language, left, value, form, 0)

    cdef int surrogate(self, Position p, int high) except -2:
        cdef int found = self.languages.after(p.language, combine(high, 0xDC00), combine(high, 0xDFFF))
        if found >= 0:
            return self.intern(p.spelling, PAIR_ANY, found, 4, 0, p.form, 0)
        return self.intern(p.spelling, PAIR, p.language, 4, 0, p.form, high) if found != NONE else NONE

    cdef int low_half(self, Position p, int left, int value) except -2:
        cdef int low = max(value << 4 * left, 0xDC00), high = min(((value + 1) << 4 * left) - 1, 0xDFFF)
        if low > high:
            return NONE
        if left == 0:
            return self.after(p.spelling, p.language, combine(p.high, value), False)
        if self.languages.after(p.language, combine(p.high, low), combine(p.high, high)) == NONE:
            return NONE
        return self.intern(p.spelling, HEX_LOW, p.language, left, value, p.form, p.high)

    cdef int octal(self, Position p, int left, int value) except -2:
        cdef int digit
        if self.languages.after(p.language, value, value) == NONE:
            for digit in range(8):
                if left and self.octal(p, left - 1, value * 8 + digit) >= 0:
                    break
            else:
                return NONE
        return self.intern(p.spelling, OCTAL, p.language, left, value, 0, 0)

    cdef int mark(self, int position, int32_t* row) except -1:
        """Set row[byte] = -1 (to be computed) for every byte that may continue; a superset."""
        cdef Position p = self.at[position]
        cdef Spelling* s = &self.spellings[p.spelling]
        cdef int at
        if p.place in (UTF8, UTF8_ANY):
            memset(row + 0x80, 0xFF, 4 * 0x40)
        elif p.place == ESCAPE:
            mark_escape(s, row)
        elif p.place in (PAIR, PAIR_ANY, PAIR_U, PAIR_U_ANY):
            row[0x5C if p.place in (PAIR, PAIR_ANY) else 0x75] = -1
        elif p.place != BODY:
            memset(row, 0xFF, 4 * (256 if p.place == OCTAL else 128))
        else:
            if s.closing >= 0:
                row[s.closing] = -1
            if s.escapes:
                row[0x5C] = -1
            if self.languages.at[p.language].texts >= 0:
                self.mark_literals(p.language, row)
            else:
                if self.languages.at[p.language].first < 0:
                    self.languages.expand(p.language)
                for at in range(self.languages.at[p.language].first, self.languages.at[p.language].last):
                    mark_range(self.languages.edge_low.at[at], self.languages.edge_high.at[at], row)
        return 0

    cdef void mark_literals(self, int language, int32_t* row) noexcept:
        cdef LanguageAt at = self.languages.at[language]
        cdef LiteralTexts* entry = &self.languages.sets[at.texts]
        cdef int i = at.low, point, left, right, middle
        if entry.offset[i + 1] - entry.offset[i] == at.depth:
            i += 1
        while i < at.high:
            point = entry.points[entry.offset[i] + at.depth]
            mark_range(point, point, row)
            left, right = i + 1, at.high
            while left < right:
                middle = (left + right) >> 1
                if entry.points[entry.offset[middle] + at.depth] <= point:
                    left = middle + 1
                else:
                    right = middle
            i = left
