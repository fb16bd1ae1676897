# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
r"""Text positions of the compiled kernel; `engine.text` is the readable twin, place by place.

What is added here for speed: positions are ints; literal sets are searched in sorted code point arrays; and a started character all of
whose completions lead to the same language forgets what it has spelled (places ..._ANY), so that a free text has some twenty
positions instead of thousands.
"""
from libc.stdint cimport int32_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc, realloc
from constrained.engine._tables cimport Ints, Map, ints_add, map_get, map_put, pair
from constrained.machine import LiteralSet


cdef inline int hex_value(int byte, bint upper) noexcept:
    if 48 <= byte <= 57:
        return byte - 48
    if 97 <= byte <= 102:
        return byte - 87
    if upper and 65 <= byte <= 70:
        return byte - 55
    return -1


cdef inline int combine(int high, int low) noexcept:
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)


cdef class Texts:
    """Languages, spellings and positions, interned as ints; owned by one kernel."""

    def __cinit__(self):
        self.languages = NULL
        self.sets = NULL
        self.excluded = NULL
        self.positions = NULL
        self.spellings = <Spelling*>calloc(16, sizeof(Spelling))
        self.objects, self.ids, self.set_ids, self.excluded_ids, self.spelling_ids = [], {}, {}, {}, {}
        self.range_tables, self.spelling_objects = [], []
        ints_add(&self.table_first, 0)

    def __dealloc__(self):
        cdef int i
        for i in range(self.set_count):
            free(self.sets[i].offset)
            free(self.sets[i].points)
        for i in range(self.excluded_count):
            free(self.excluded[i])
        for pointer in (<size_t>self.edge_low.at, <size_t>self.edge_high.at, <size_t>self.edge_target.at, <size_t>self.literal_ids.at,
                        <size_t>self.sets, <size_t>self.excluded, <size_t>self.spellings, <size_t>self.table_first.at, <size_t>self.table_low.at,
                        <size_t>self.table_high.at, <size_t>self.positions, <size_t>self.position_ids.at, <size_t>self.languages):
            free(<void*><size_t>pointer)

    # -- languages ------------------------------------------------------------------------------------------------------

    cdef int language(self, object language) except -1:
        cdef int known
        found = self.ids.get(language)
        if found is not None:
            return found
        literal = language if isinstance(language, LiteralSet) else getattr(language, "literal_set", None)
        if literal is not None:
            known = self.literal_language(self._texts(literal.texts), self._excluded(literal.texts, literal.excluded), literal.low, literal.high, literal.depth)
        else:
            known = self._new_language()
            self.languages[known].accepts = bool(language.accepts)
            self.objects[known] = language
        self.ids[language] = known
        return known

    def _new_language(self):
        cdef int fresh = self.language_count
        if fresh == self.language_room:
            self.language_room = 2 * fresh + 64
            self.languages = <LanguageAt*>realloc(self.languages, self.language_room * sizeof(LanguageAt))
            if self.languages == NULL:
                raise MemoryError
        self.language_count += 1
        self.languages[fresh].first = -1
        self.languages[fresh].last = -1
        self.languages[fresh].texts = -1
        self.objects.append(None)
        return fresh

    def _texts(self, tuple texts):
        known = self.set_ids.get(id(texts))
        if known is not None:
            return known[1]
        cdef int i = 0, total = 0, count = len(texts)
        cdef LiteralTexts entry
        for text in texts:
            total += len(text)
        entry.count = count
        entry.offset = <int32_t*>malloc(4 * (count + 1))
        entry.points = <int32_t*>malloc(4 * (total + 1))
        total = 0
        cdef Py_UCS4 character
        cdef str text_
        for text_ in texts:
            entry.offset[i] = total
            for character in text_:
                entry.points[total] = <int32_t>character
                total += 1
            i += 1
        entry.offset[count] = total
        if self.set_count == self.set_room:
            self.set_room = 2 * self.set_room + 16
            self.sets = <LiteralTexts*>realloc(self.sets, self.set_room * sizeof(LiteralTexts))
        self.sets[self.set_count] = entry
        self.set_ids[id(texts)] = (texts, self.set_count)
        self.set_count += 1
        return self.set_count - 1

    def _excluded(self, tuple texts, excluded):
        """Return the number of a set of excluded texts, given as a bitmask."""
        key = (id(texts), excluded)
        known = self.excluded_ids.get(key)
        if known is None:
            offers = ~excluded & ((1 << len(texts)) - 1)
            raw = offers.to_bytes(len(texts) // 8 + 8, "little")
            known = self.excluded_ids[key] = self._offered(len(texts), <size_t><const char*>raw)
        return known

    def _offered(self, int count, size_t bits):
        """Return the number of the set of texts whose bit is set: for each index the next one in it."""
        cdef const uint8_t* bit = <const uint8_t*>bits
        cdef int i, free_at = count
        cdef int32_t* following = <int32_t*>malloc(4 * (count + 1))
        if following == NULL:
            raise MemoryError
        following[count] = count
        for i in range(count - 1, -1, -1):
            if bit[i >> 3] >> (i & 7) & 1:
                free_at = i
            following[i] = free_at
        if self.excluded_count == self.excluded_room:
            self.excluded_room = 2 * self.excluded_room + 16
            self.excluded = <int32_t**>realloc(self.excluded, self.excluded_room * sizeof(void*))
        self.excluded[self.excluded_count] = following
        self.excluded_count += 1
        return self.excluded_count - 1

    cdef int literals_of(self, int texts, int32_t* offers) except -1:
        """Return the language of some texts of a set, given as bits; the same bits give the same language."""
        cdef int count = self.sets[texts].count
        key = (texts, (<const char*>offers)[:4 * ((count + 31) // 32)])
        known = self.excluded_ids.get(key)
        if known is None:
            known = self.excluded_ids[key] = self._offered(count, <size_t>offers)
        return self.literal_language(texts, known, 0, count, 0)

    cdef int literal_language(self, int texts, int excluded, int low, int high, int depth) except -1:
        cdef uint64_t a = pair(texts, excluded), b = (<uint64_t>low << 42) | (<uint64_t>high << 20) | <uint64_t>depth
        cdef int known = map_get(&self.literal_ids, a, b)
        if known >= 0:
            return known
        known = self._new_language()
        cdef LanguageAt* at = &self.languages[known]
        at.texts, at.excluded, at.low, at.high, at.depth = texts, excluded, low, high, depth
        cdef LiteralTexts* entry = &self.sets[texts]
        at.accepts = entry.offset[low + 1] - entry.offset[low] == depth and self.excluded[excluded][low] == low
        map_put(&self.literal_ids, a, b, known)
        return known

    cdef int literal_range(self, int language, int low, int high) except -3:
        """Return the language after a code point of [low, high]: a target if low == high, else NONE or MIXED."""
        cdef LanguageAt at = self.languages[language]
        cdef LiteralTexts* entry = &self.sets[at.texts]
        cdef int depth = at.depth, left, right, middle, begin = at.low
        if entry.offset[begin + 1] - entry.offset[begin] == depth:
            begin += 1
        left, right = begin, at.high
        while left < right:
            middle = (left + right) >> 1
            if entry.points[entry.offset[middle] + depth] < low:
                left = middle + 1
            else:
                right = middle
        begin, right = left, at.high
        while left < right:
            middle = (left + right) >> 1
            if entry.points[entry.offset[middle] + depth] <= high:
                left = middle + 1
            else:
                right = middle
        if begin >= left or self.excluded[at.excluded][begin] >= left:
            return NONE
        return self.literal_language(at.texts, at.excluded, begin, left, depth + 1) if low == high else MIXED

    cdef int expand(self, int language) except -1:
        cdef int first = self.edge_low.size
        for low, high, target in self.objects[language].edges():
            known = self.language(target)
            ints_add(&self.edge_low, low)
            ints_add(&self.edge_high, high)
            ints_add(&self.edge_target, known)
        self.languages[language].first, self.languages[language].last = first, self.edge_low.size
        return 0

    cdef int language_range(self, int language, int low, int high) except -3:
        """Return the one target of all of [low, high], NONE if none of it continues, else MIXED."""
        if self.languages[language].texts >= 0:
            return self.literal_range(language, low, high)
        if self.languages[language].first < 0:
            self.expand(language)
        cdef int left = self.languages[language].first, last = self.languages[language].last, right = last, middle
        while left < right:
            middle = (left + right) >> 1
            if self.edge_high.at[middle] < low:
                left = middle + 1
            else:
                right = middle
        if left == last or self.edge_low.at[left] > high:
            return NONE
        if self.edge_low.at[left] <= low and self.edge_high.at[left] >= high:
            return self.edge_target.at[left]
        return MIXED

    cdef object language_object(self, int language):
        return self.objects[language]

    # -- spellings ------------------------------------------------------------------------------------------------------

    cdef int table(self, object ranges) except -1:
        if ranges in self.range_tables:
            return self.range_tables.index(ranges)
        for low, high in ranges:
            ints_add(&self.table_low, low)
            ints_add(&self.table_high, high)
        ints_add(&self.table_first, self.table_low.size)
        self.range_tables.append(ranges)
        return len(self.range_tables) - 1

    cdef int spelling(self, object spelling) except -1:
        known = self.spelling_ids.get(id(spelling))
        if known is not None:
            return known[1]
        cdef int fresh = self.spelling_count
        cdef Spelling* s = &self.spellings[fresh]
        cdef int i = 0
        s.closing, s.raw, s.escapes = spelling.closing, self.table(spelling.raw), spelling.escapes
        s.octal, s.continuation, s.tag_safe = spelling.octal, spelling.continuation, spelling.tag_safe
        for byte, point in spelling.short:
            s.short_byte[i], s.short_point[i] = byte, point
            i += 1
        s.shorts, i = i, 0
        for form in spelling.hexes:
            s.hex_form[i].letter, s.hex_form[i].digits, s.hex_form[i].upper, s.hex_form[i].pairs = form.letter, form.digits, form.upper, form.pairs
            s.hex_form[i].table = self.table(form.allowed)
            i += 1
        s.hexes = i
        self.spelling_ids[id(spelling)] = (spelling, fresh)
        self.spelling_objects.append(spelling)
        self.spelling_count += 1
        return fresh

    cdef bint in_table(self, int table, int point) noexcept:
        cdef int left = self.table_first.at[table], last = self.table_first.at[table + 1], right = last, middle
        while left < right:
            middle = (left + right) >> 1
            if self.table_high.at[middle] < point:
                left = middle + 1
            else:
                right = middle
        return left < last and self.table_low.at[left] <= point

    cdef int probe(self, int language, int low, int high, int table) except -3:
        """As language_range, for the code points of [low, high] that the table allows; one target only if it allows all of them."""
        cdef int at = self.table_first.at[table], last = self.table_first.at[table + 1], a, b, found
        if low > high:
            return NONE
        while at < last and self.table_high.at[at] < low:
            at += 1
        while at < last and self.table_low.at[at] <= high:
            a, b = max(low, self.table_low.at[at]), min(high, self.table_high.at[at])
            found = self.language_range(language, a, b)
            if found != NONE:
                return found if a == low and b == high else MIXED
            at += 1
        return NONE

    # -- positions ------------------------------------------------------------------------------------------------------

    cdef int intern(self, int spelling, int place, int language, int left, int value, int form, int high) except -1:
        cdef uint64_t a = pair(language, (spelling << 24) | (place << 16) | (left << 8) | form), b = pair(value, high)
        cdef int known = map_get(&self.position_ids, a, b)
        if known >= 0:
            return known
        known = self.position_count
        if known == self.position_room:
            self.position_room = 2 * known + 64
            self.positions = <Position*>realloc(self.positions, self.position_room * sizeof(Position))
            if self.positions == NULL:
                raise MemoryError
        cdef Position* p = &self.positions[known]
        p.language, p.value, p.high = language, value, high
        p.spelling, p.place, p.left, p.form = spelling, place, left, form
        self.position_count += 1
        map_put(&self.position_ids, a, b, known)
        return known

    cdef int body(self, int spelling, int language) except -1:
        return self.intern(spelling, BODY, language, 0, 0, 0, 0)

    cdef bint accepting(self, int position) except -1:
        cdef Position p = self.positions[position]
        return p.place == DONE or (p.place == BODY and self.spellings[p.spelling].closing < 0 and self.languages[p.language].accepts)

    cdef bint reads(self, int position) except -1:
        """Say whether any byte can follow; every place inside a character is live."""
        cdef Position p = self.positions[position]
        if p.place == DONE:
            return False
        if p.place != BODY or self.spellings[p.spelling].closing >= 0:
            return True
        return self.language_range(p.language, 0, 0x10FFFF) != NONE

    cdef int label(self, int position) noexcept:
        return self.languages[self.positions[position].language].low

    cdef int after(self, int spelling, int language, int point, bint raw) except -2:
        cdef int target = self.language_range(language, point, point)
        if target < 0:
            return NONE
        return self.intern(spelling, BODY_LESS if raw and point == 0x3C and self.spellings[spelling].tag_safe else BODY, target, 0, 0, 0, 0)

    cdef int step(self, int position, int byte) except -2:
        cdef Position p = self.positions[position]
        cdef int digit
        if p.place <= BODY_LESS:
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
        if p.place <= ESCAPE_LESS:
            return self.step_escape(p, byte)
        if p.place == OCTAL:
            if p.left and 0x30 <= byte < 0x38:
                return self.octal(p, p.left - 1, p.value * 8 + byte - 0x30)
            digit = self.after(p.spelling, p.language, p.value, False)
            return self.step_body(self.positions[digit], byte) if digit >= 0 else NONE
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
        return self.intern(p.spelling, p.place if p.left > 1 else BODY, p.language, p.left - 1, 0, p.form if p.left > 1 else 0, 0)

    cdef int step_body(self, Position p, int byte) except -2:
        cdef Spelling* s = &self.spellings[p.spelling]
        if byte == s.closing:
            return self.intern(p.spelling, DONE, p.language, 0, 0, 0, 0) if self.languages[p.language].accepts else NONE
        if byte == 0x5C and s.escapes:
            return self.escape(p)
        if byte < 0x80:
            if (p.place == BODY_LESS and byte == 0x2F) or not self.in_table(s.raw, byte):
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
            return self.after(p.spelling, p.language, value, True) if self.in_table(s.raw, value) else NONE
        high = ((value + 1) << 6 * left) - 1
        if left == 2 and value == 0:
            low = 0x800
        elif left == 3 and value == 0:
            low = 0x10000
        found = self.probe(p.language, low, high, s.raw)
        if found >= 0 and low == value << 6 * left:
            return self.intern(p.spelling, UTF8_ANY, found, left, 0, 0, 0)
        return self.intern(p.spelling, UTF8, p.language, left, value, 0, 0) if found != NONE else NONE

    cdef int escape(self, Position p) except -2:
        cdef Spelling* s = &self.spellings[p.spelling]
        cdef Position start = p
        cdef int place = ESCAPE_LESS if p.place == BODY_LESS else ESCAPE, byte
        start.place = place
        if not s.continuation:
            for byte in range(0x21, 0x7F):
                if self.step_escape(start, byte) >= 0:
                    break
            else:
                return NONE
        return self.intern(p.spelling, place, p.language, 0, 0, 0, 0)

    cdef int step_escape(self, Position p, int byte) except -2:
        cdef Spelling* s = &self.spellings[p.spelling]
        cdef int i
        for i in range(s.shorts):
            if s.short_byte[i] == byte:
                return self.after(p.spelling, p.language, s.short_point[i], False)
        if byte == 0x2F and p.place == ESCAPE_LESS:
            return self.after(p.spelling, p.language, 0x2F, False)
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
        cdef int found, a, b, found_pair = NONE
        if low > 0x10FFFF:
            return NONE
        if left == 0:
            if f.pairs and 0xD800 <= value <= 0xDBFF:
                return self.surrogate(p, value)
            return self.after(p.spelling, p.language, value, False) if self.in_table(f.table, value) else NONE
        found = self.probe(p.language, low, min(high, 0xFFFF if f.pairs else 0x10FFFF), f.table)
        if f.pairs:
            a, b = max(low, 0xD800), min(high, 0xDBFF)
            if a <= b:
                found_pair = self.language_range(p.language, combine(a, 0xDC00), combine(b, 0xDFFF))
        if found >= 0 and high <= 0x10FFFF:
            return self.intern(p.spelling, HEX_ANY, found, left, 0, form, 0)
        if found == NONE and found_pair == NONE:
            return NONE
        return self.intern(p.spelling, HEX, p.language, left, value, form, 0)

    cdef int surrogate(self, Position p, int high) except -2:
        cdef int found = self.language_range(p.language, combine(high, 0xDC00), combine(high, 0xDFFF))
        if found >= 0:
            return self.intern(p.spelling, PAIR_ANY, found, 4, 0, p.form, 0)
        return self.intern(p.spelling, PAIR, p.language, 4, 0, p.form, high) if found != NONE else NONE

    cdef int low_half(self, Position p, int left, int value) except -2:
        cdef int low = max(value << 4 * left, 0xDC00), high = min(((value + 1) << 4 * left) - 1, 0xDFFF)
        if low > high:
            return NONE
        if left == 0:
            return self.after(p.spelling, p.language, combine(p.high, value), False)
        if self.language_range(p.language, combine(p.high, low), combine(p.high, high)) == NONE:
            return NONE
        return self.intern(p.spelling, HEX_LOW, p.language, left, value, p.form, p.high)

    cdef int octal(self, Position p, int left, int value) except -2:
        cdef int digit
        if self.language_range(p.language, value, value) == NONE:
            for digit in range(8):
                if left and self.octal(p, left - 1, value * 8 + digit) >= 0:
                    break
            else:
                return NONE
        return self.intern(p.spelling, OCTAL, p.language, left, value, 0, 0)

    # -- candidates -----------------------------------------------------------------------------------------------------

    cdef int mark(self, int position, int32_t* row) except -1:
        """Set row[byte] = -1 (to be computed) for every byte that may continue; a superset."""
        cdef Position p = self.positions[position]
        cdef Spelling* s = &self.spellings[p.spelling]
        cdef int byte, at
        if p.place in (UTF8, UTF8_ANY):
            for byte in range(0x80, 0xC0):
                row[byte] = -1
        elif p.place > BODY_LESS:
            for byte in range(256 if p.place == OCTAL else 128):
                row[byte] = -1
        else:
            if s.closing >= 0:
                row[s.closing] = -1
            if s.escapes:
                row[0x5C] = -1
            if self.languages[p.language].texts >= 0:
                self._mark_literals(p.language, <size_t>row)
            else:
                if self.languages[p.language].first < 0:
                    self.expand(p.language)
                for at in range(self.languages[p.language].first, self.languages[p.language].last):
                    self._mark_range(self.edge_low.at[at], self.edge_high.at[at], <size_t>row)
        return 0

    def _mark_range(self, int low, int high, size_t row_):
        cdef int32_t* row = <int32_t*>row_
        cdef int byte
        for byte in range(low, min(high, 0x7F) + 1):
            row[byte] = -1
        if high >= 0x80:
            low = max(low, 0x80)
            for byte in range(0xC0 + (low >> 6) if low < 0x800 else 0xE0 + (low >> 12) if low < 0x10000 else 0xF0 + (low >> 18),
                              (0xC0 + (high >> 6) if high < 0x800 else 0xE0 + (high >> 12) if high < 0x10000 else 0xF0 + (high >> 18)) + 1):
                row[byte] = -1

    def _mark_literals(self, int language, size_t row):
        cdef LanguageAt at = self.languages[language]
        cdef LiteralTexts* entry = &self.sets[at.texts]
        cdef int i = at.low, point, left, right, middle
        if entry.offset[i + 1] - entry.offset[i] == at.depth:
            i += 1
        while i < at.high:
            point = entry.points[entry.offset[i] + at.depth]
            self._mark_range(point, point, row)
            left, right = i + 1, at.high
            while left < right:
                middle = (left + right) >> 1
                if entry.points[entry.offset[middle] + at.depth] <= point:
                    left = middle + 1
                else:
                    right = middle
            i = left
