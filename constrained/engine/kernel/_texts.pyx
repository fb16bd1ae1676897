# cython: boundscheck=False, wraparound=False, cdivision=True
"""Texts as the kernel reads them: regular languages over characters, and positions inside a character's spelling.

    expression (`regex`) ── Languages ──► languages as numbers, edges over code points ──┐
    spelling (UTF-8, escapes of JSON, Python, …) ────────────────────────────────────────┴─► Positions, bytes to bytes

A position is a language, a quoting and how far into one character's bytes or escape it stands; equal positions have one
number.  Read from the top: sets of code points, markers, languages, positions.
"""
from cython cimport final
from libc.string cimport memcpy, memset
from constrained.engine.memory._memory cimport (
    allotted, ask, cleared, enlarged, ints_free, ints_put, ints_room, map_add, map_find, map_free, map_get, map_put,
    map_room, MOST_ITEMS, pair, released, TICKS, work)

from array import array
from constrained.errors import LimitExceeded
from constrained.machine import LiteralSet
from constrained.regex.algebra import repeat
from constrained.regex.expr import Expr, LAZY, LITERAL, REPEAT, SET
from constrained.regex.markers import ESCAPED


# ======================================================================================================================
# Sets of code points as sorted ranges, each with a number: plain C, header only, so that every module inlines it.
# ======================================================================================================================

cdef inline int ranges_add(RangeSets* sets, const int32_t* ends, int count) except -1:
    """Add a set, given as the lower ends of its ranges and behind them the upper ones."""
    ints_room(&sets.first, 2)
    ints_room(&sets.low, count)
    ints_room(&sets.high, count)
    if sets.first.size == 0:
        ints_put(&sets.first, 0)
    if count:
        memcpy(sets.low.at + sets.low.size, ends, 4 * <size_t>count)
        memcpy(sets.high.at + sets.high.size, ends + count, 4 * <size_t>count)
    sets.low.size += count
    sets.high.size += count
    ints_put(&sets.first, sets.low.size)
    return 0


cdef inline void ranges_free(RangeSets* sets) noexcept:
    ints_free(&sets.first)
    ints_free(&sets.low)
    ints_free(&sets.high)


# ======================================================================================================================
# Marks of the bytes that may go on inside a text: -1, to be computed, for each of them and perhaps more.
#
# Plain twin: the steps of `engine.plain.TextAt`.
# ======================================================================================================================

cdef inline void mark_escape(const Spelling* s, int32_t* row) noexcept:
    """Mark what an escape may begin with."""
    cdef int i
    for i in range(s.shorts):
        row[s.short_byte[i]] = -1
    for i in range(s.hexes):
        row[s.hex_form[i].letter] = -1
    if s.octal:
        memset(row + 0x30, 0xFF, 4 * 8)
    if s.continuation:
        row[0x0A] = -1


cdef inline void mark_range(int low, int high, int32_t* row) noexcept:
    """Mark the first bytes of the characters of a range."""
    cdef int byte
    for byte in range(low, min(high, 0x7F) + 1):
        row[byte] = -1
    if high >= 0x80:
        low = max(low, 0x80)
        for byte in range(0xC0 + (low >> 6) if low < 0x800 else 0xE0 + (low >> 12) if low < 0x10000
                          else 0xF0 + (low >> 18),
                          (0xC0 + (high >> 6) if high < 0x800 else 0xE0 + (high >> 12) if high < 0x10000
                           else 0xF0 + (high >> 18)) + 1):
            row[byte] = -1


# ======================================================================================================================
# Languages of text values: states over code points, interned as ints.
#
# Three kinds: those that list their edges when asked (expressions, numbers); finite sets of texts, or one text,
# searched in sorted arrays of code points without listing anything; and counted ones, C{m,n} of a class C, which have
# the ranges of C and lead to C{m-1,n-1}.
#
# Edges are kept as ranges of code points with the number of a way each, and a target per way: languages that differ in
# their targets only share the ranges (see `machine.Outline`).
#
# Owns: the languages, their edges, the texts of finite sets.  Borrows: the kernel's meter of work.
# Invariants: `at[i]` is one language for ever; its edges are sorted, disjoint and complete once `first >= 0`; a finite
# set is the texts [low, high) of a sorted set that agree on `depth` characters, without the excluded ones, never empty;
# a counted one is never C{0,0} or C{1,1}, and whoever names C{m,n} gets the number that was counted down to.
# Plain twin: `machine.Language.edges` and `machine.LiteralSet`.
# ======================================================================================================================

cdef enum:
    ASKED = 256         # ticks that it takes to ask an object for its edges, and to list one of them
    LISTED = 32
    COUNTED = 10 * TICKS    # and what making and deriving C{m,n} takes, without its ranges
    MOST_COUNTED = 1 << 30  # characters that are counted; an expression counts more of them
    ENDLESS = -1
    LANGUAGE = 1000     # bytes of a language with the Python objects behind it, of one without, and of an edge
    BARE_LANGUAGE = 400
    EDGE = 150
    SHARED = 12         # bytes of a range that languages share


@final
cdef class Languages:
    """Languages by number; `number` finds or makes one, `after` is where a code point leads."""

    def __cinit__(self, Meter meter):
        self.meter, self.most = meter, 1 << 30
        self.clear()

    def __dealloc__(self):
        self.release()

    cdef void release(self) noexcept:
        cdef int i
        for i in range(self.set_count):
            released(self.sets[i].offset)
        for i in range(self.excluded_count):
            released(self.excluded[i])
        released(self.sets)
        released(self.excluded)
        released(self.at)
        self.sets, self.excluded, self.at = NULL, NULL, NULL
        self.set_count = self.set_room = self.excluded_count = self.excluded_room = self.count = self.room = 0
        ints_free(&self.edge_low)
        ints_free(&self.edge_high)
        ints_free(&self.edge_way)
        ints_free(&self.targets)
        map_free(&self.literal_ids)
        map_free(&self.offered_ids)

    cdef int clear(self) except -1:
        """Give all memory back; no language has a number any more."""
        self.release()
        self.bytes = 0
        self.objects, self.set_objects, self.ids, self.set_ids, self.excluded_ids = [], [], {}, {}, {}
        self.wide_ids, self.outlines = {}, {}
        return 0

    cdef int number(self, object language) except -1:
        cdef int known
        found = self.ids.get(language)
        if found is not None:
            return found
        cdef bint plain = type(language) is Expr    # asked in fewer words, as most are expressions
        if plain:
            literal = language.args[0] if language.kind == SET else None
            if language.kind == LITERAL and len(language.args[0]) > 1:  # one character is a class, which may be counted
                literal = LiteralSet((language.args[0],))
        else:
            literal = language if isinstance(language, LiteralSet) else getattr(language, "literal_set", None)
        if literal is not None:
            known = self.literals(self.texts_of(literal.texts), self.excluded_of(literal.texts, literal.excluded),
                                  literal.low, literal.high, literal.depth)
        elif (counted := countable(language)) is not None:
            known = self.repeated(self.number(counted[0]), counted[1], ENDLESS if counted[2] is None else counted[2])
            if self.objects[known] is None:
                self.objects[known] = language
        else:
            ask(self.meter)
            accepts, goes_on = bool(language.accepts), not plain and bool(getattr(language, "goes_on", False))
            known = self.fresh(LANGUAGE)
            self.at[known].accepts, self.at[known].goes_on = accepts, goes_on
            if not plain and getattr(language, "labelled", False):
                self.at[known].labelled, self.at[known].low = True, language.label
            self.objects[known] = language
        self.ids[language] = known
        return known

    cdef int fresh(self, int size) except -1:
        cdef int fresh = self.count
        if fresh >= self.most:
            raise LimitExceeded(
                "a text has too many states",
                because="its language was taken apart into 100,000 of them between two tokens",
                instead="simplify the pattern, or drop some of its multiples",
            )
        if fresh == self.room:
            self.at = <LanguageAt*>enlarged(self.at, &self.room, sizeof(LanguageAt), 64)
        self.objects.append(None)
        self.count += 1
        self.bytes += size
        cdef LanguageAt* at = &self.at[fresh]
        at.first = at.last = at.texts = at.of = at.spelling = -1
        at.leaving = at.goes_on = at.labelled = 0
        return fresh

    cdef int texts_of(self, tuple texts) except -1:
        known = self.set_ids.get(id(texts))
        if known is not None:
            return known[1]
        cdef int i = 0, total = 0, count
        cdef LiteralTexts entry
        cdef Py_UCS4 character
        cdef str text_
        cdef size_t points = 0
        for text_ in texts:
            points += len(text_)
            work(self.meter, LISTED)
        if points + len(texts) >= MOST_ITEMS:
            raise LimitExceeded("a set of texts is too large", because=f"it has {points:,} characters",
                                instead="fewer or shorter texts, or a pattern")
        if self.set_count == self.set_room:
            self.sets = <LiteralTexts*>enlarged(self.sets, &self.set_room, sizeof(LiteralTexts), 1)
        count = len(texts)
        entry.count = count
        entry.offset = <int32_t*>allotted(<size_t>count + 1 + <size_t>points, 4)
        entry.points = entry.offset + count + 1
        self.sets[self.set_count] = entry
        # from here on it is freed with the others, also where the rest fails and it is never found again
        self.set_count += 1
        while len(self.set_objects) < self.set_count:
            self.set_objects.append(texts)
        for text_ in texts:
            entry.offset[i] = total
            for character in text_:
                entry.points[total] = <int32_t>character
                total += 1
            i += 1
            work(self.meter, <int>len(text_))
        entry.offset[count] = total
        self.set_ids[id(texts)] = (texts, self.set_count - 1)
        return self.set_count - 1

    cdef int excluded_of(self, tuple texts, object excluded) except -1:
        """Return the number of a set of excluded texts, given as a bitmask."""
        key = (id(texts), excluded)
        if (known := self.excluded_ids.get(key)) is None:
            offers = ~excluded & ((1 << <object>len(texts)) - 1)  # a Python int: a C one has 64 bits
            raw = offers.to_bytes(len(texts) // 8 + 8, "little")
            known = self.excluded_ids[key] = self.offered(len(texts), <const uint8_t*><const char*>raw)
        return known

    cdef int offered(self, int count, const uint8_t* bit) except -1:
        """Return the number of the set of texts whose bit is set: for each index the next one in it."""
        cdef int i, free_at = count
        cdef int32_t* following
        if self.excluded_count == self.excluded_room:
            self.excluded = <int32_t**>enlarged(self.excluded, &self.excluded_room, sizeof(void*), 1)
        following = <int32_t*>allotted(<size_t>count + 1, 4)
        following[count] = count
        for i in range(count - 1, -1, -1):
            if bit[i >> 3] >> (i & 7) & 1:
                free_at = i
            following[i] = free_at
        self.excluded[self.excluded_count] = following
        self.excluded_count += 1
        return self.excluded_count - 1

    cdef int literals_of(self, int texts, int32_t* offers) except -1:
        """Return the language of some texts of a set, given as bits; the same bits give the same language."""
        cdef int count = self.sets[texts].count, words = (count + 31) // 32, known
        cdef uint64_t bits
        if 1 <= words <= 2:
            bits = pair(offers[0], offers[words - 1])
            known = map_get(&self.offered_ids, texts, bits)
            if known < 0:
                map_room(&self.offered_ids)
                known = self.offered(count, <const uint8_t*>offers)
                map_put(&self.offered_ids, texts, bits, known)
            return self.literals(texts, known, 0, count, 0)
        key = (texts, (<const char*>offers)[:4 * words])
        if (found := self.excluded_ids.get(key)) is None:
            found = self.excluded_ids[key] = self.offered(count, <const uint8_t*>offers)
        return self.literals(texts, found, 0, count, 0)

    cdef int literals(self, int texts, int excluded, int low, int high, int depth) except -1:
        cdef uint64_t a = pair(texts, excluded), b = (<uint64_t>low << 42) | (<uint64_t>high << 20) | <uint64_t>depth
        cdef bint wide = depth >> 20 or high >> 22
        cdef int known, near = texts + excluded + low + depth
        cdef LanguageAt* at
        if wide:
            found = self.wide_ids.get((texts, excluded, low, high, depth))
            known = -1 if found is None else found
        else:
            known = map_find(&self.literal_ids, a, b, near)
        if known >= 0:
            return known
        known = self.fresh(BARE_LANGUAGE)
        at = &self.at[known]
        at.texts, at.excluded, at.low, at.high, at.depth = texts, excluded, low, high, depth
        at.accepts = self.ends(at, depth, low)
        if wide:
            self.wide_ids[texts, excluded, low, high, depth] = known
        else:
            map_add(&self.literal_ids, a, b, near, known)
        return known

    cdef int length(self, int texts, int index) noexcept:
        return self.sets[texts].offset[index + 1] - self.sets[texts].offset[index]

    cdef bint ends(self, LanguageAt* start, int depth, int low) noexcept:
        """Say whether the first of some texts, which agree on `depth` characters, ends there and is not excluded."""
        cdef const int32_t* offset = self.sets[start.texts].offset
        return offset[low + 1] - offset[low] == depth and self.excluded[start.excluded][low] == low

    cdef bint narrow(self, LanguageAt* start, int depth, int least, int most, int* low, int* high) noexcept:
        """Narrow the texts [low, high), which agree on `depth` characters, to those that go on with a code point of
        [least, most].

        Return whether one of these is not excluded.
        """
        cdef LiteralTexts* entry = &self.sets[start.texts]
        cdef const int32_t* offset = entry.offset
        cdef const int32_t* points = entry.points + depth
        cdef int begin = low[0], left, right, middle
        if offset[begin + 1] - offset[begin] == depth:
            begin += 1
        left, right = begin, high[0]
        while left < right:
            middle = (left + right) >> 1
            if points[offset[middle]] < least:
                left = middle + 1
            else:
                right = middle
        begin, right = left, high[0]
        while left < right:
            middle = (left + right) >> 1
            if points[offset[middle]] <= most:
                left = middle + 1
            else:
                right = middle
        low[0], high[0] = begin, left
        return begin < left and self.excluded[start.excluded][begin] < left

    cdef int literals_after(self, int language, int low, int high) except -3:
        """Return the language after a code point of [low, high]: a target if low == high, else NONE or MIXED."""
        cdef LanguageAt at = self.at[language]
        cdef int begin = at.low, end = at.high
        if not self.narrow(&at, at.depth, low, high, &begin, &end):
            return NONE
        return self.literals(at.texts, at.excluded, begin, end, at.depth + 1) if low == high else MIXED

    # -- counted characters --------------------------------------------------------------------------------------------

    cdef int repeated(self, int of, int least, int most) except -1:
        """Return the language of `least` to `most` characters of a class, which is a language itself."""
        cdef uint64_t a = pair(-1, of), b = pair(least, most)   # no set of texts has the number -1
        cdef int known = map_get(&self.literal_ids, a, b)
        if known < 0:
            map_room(&self.literal_ids)
            known = self.fresh(LANGUAGE)
            self.at[known].of, self.at[known].low, self.at[known].high = of, least, most
            self.at[known].accepts = least == 0
            map_put(&self.literal_ids, a, b, known)
        return known

    cdef int count_down(self, int language) except -1:
        """Find out where a counted language leads; work is charged as if an expression had been asked."""
        cdef int of = self.at[language].of, most = self.at[language].high, after
        cdef int least = max(self.at[language].low - 1, 0)
        if self.at[of].first < 0:
            self.expand(of)
        most -= most != ENDLESS
        if most == 0:
            after = self.target(of, self.at[of].first)          # nothing is left
        else:
            after = of if least == most == 1 else self.repeated(of, least, most)
        self.at[language].targets = after
        self.at[language].first, self.at[language].last = self.at[of].first, self.at[of].last
        return work(self.meter, ASKED + COUNTED + (LISTED + TICKS) * (self.at[of].last - self.at[of].first))

    cdef object counted(self, int language):
        """Return (C, m, n) of a language that is C{m,n} (n None: unbounded), else None."""
        cdef LanguageAt* at = &self.at[language]
        if at.of < 0:
            return getattr(self.objects[language], "counted", None)
        return self.objects[at.of], at.low, None if at.high == ENDLESS else at.high

    cdef object object_of(self, int language):
        """Return what a language was named by; None for a literal set that was reached by a step."""
        found = self.objects[language]
        if found is None and self.at[language].of >= 0:
            ask(self.meter)
            characters, least, most = self.counted(language)
            found = self.objects[language] = repeat(characters, least, most)
            self.ids[found] = language
        return found

    # -- edges ---------------------------------------------------------------------------------------------------------

    cdef int expand(self, int language) except -1:
        cdef int first, last
        if self.at[language].of >= 0:
            return self.count_down(language)
        ask(self.meter)
        named = self.objects[language]
        # of expressions, only those that stand for another state share their ranges
        shares = type(named) is not Expr or named.kind == LAZY
        ask_outline = getattr(named, "outline", None) if shares else None
        outline = None if ask_outline is None else ask_outline()
        if outline is None:
            edges = tuple(named.edges())
            ways = [self.number(target) for _, _, target in edges]
            first = self.add_ranges(edges, True)
            last = self.edge_low.size
            self.bytes += EDGE * (last - first)
        else:
            ranges, targets = outline
            ways = [NONE if target is None else self.number(target) for target in targets]
            first, last = self.shared(ranges)
        ints_room(&self.targets, len(ways))
        self.at[language].targets = self.targets.size
        for way in ways:
            ints_put(&self.targets, way)
        self.at[language].first, self.at[language].last = first, last
        work(self.meter, ASKED + LISTED * <long>len(ways))
        return 0

    cdef tuple shared(self, tuple ranges):
        """Return where the ranges of an outline stand, which all languages that have it share."""
        found = self.outlines.get(id(ranges))
        if found is None:
            first = self.add_ranges(ranges, False)
            self.bytes += SHARED * <long>len(ranges)
            work(self.meter, LISTED * <long>len(ranges))
            # held, so that its id stays its own
            found = self.outlines[id(ranges)] = (first, self.edge_low.size, ranges)
        return found[:2]

    cdef int add_ranges(self, tuple ranges, bint own) except -1:
        """Add ranges of characters, each with its way: where they are a language's own, its edges, each is one."""
        cdef int first = self.edge_low.size, low, high, way = 0
        ints_room(&self.edge_low, len(ranges))
        ints_room(&self.edge_high, len(ranges))
        ints_room(&self.edge_way, len(ranges))
        for low, high, third in ranges:
            ints_put(&self.edge_low, low)
            ints_put(&self.edge_high, high)
            ints_put(&self.edge_way, way if own else <int>third)
            way += 1
        return first

    cdef int target(self, int language, int edge) noexcept:
        """Return where a range of a language that has been expanded leads: a language, or NONE."""
        if self.at[language].of >= 0:
            return self.at[language].targets
        return self.targets.at[self.at[language].targets + self.edge_way.at[edge]]

    cdef int after(self, int language, int low, int high) except -3:
        """Return the one target of all of [low, high], NONE if none of it continues, else MIXED."""
        if self.at[language].texts >= 0:
            return self.literals_after(language, low, high)
        if self.at[language].first < 0:
            self.expand(language)
        cdef int last = self.at[language].last
        cdef int left = first_not_below(&self.edge_high, self.at[language].first, last, low)
        if left == last or self.edge_low.at[left] > high:
            return NONE
        if self.edge_low.at[left] <= low and self.edge_high.at[left] >= high:
            return self.target(language, left)
        while left < last and self.edge_low.at[left] <= high:
            if self.target(language, left) != NONE:
                return MIXED
            left += 1
        return NONE


cdef object countable(object language):
    """Return (C, m, n) of an expression that is C{m,n}, and not C itself, if its counts are small; else None."""
    counted = language.counted if type(language) is Expr and language.kind == REPEAT else None
    if counted is None:
        return None
    return counted if (counted[1] if counted[2] is None else counted[2]) <= MOST_COUNTED else None


# ======================================================================================================================
#
# ======================================================================================================================

cdef enum:
    MOST_SPELLINGS = 16


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


r"""Positions inside a text: spelling, language, and where a reader is inside one character; interned as ints.
What is added to the twin for speed: positions are ints; and a started character all of whose completions lead to the
same language forgets what it has spelled (places ..._ANY), so that a free text has some twenty positions instead of
thousands.
Owns: spellings, tables of ranges, positions.  Borrows: the languages.
Invariant: every position is live, i.e. some bytes lead from it to the end of a text.
Plain twin: `engine.plain.TextAt`, place by place.
"""
# by id: the ranges of the spellings, a few for good, and their ends
cdef dict flat_ranges = {}


cdef bytes flat(tuple ranges):
    """Return the lower ends of ranges, and behind them the upper ones, as they lie in memory."""
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
        # kept with the language, not in a table
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
        cdef int at, high, marked = 0   # up to there characters begin with a byte that the last range has marked
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
                    high = self.languages.edge_high.at[at]
                    if high >= marked:
                        mark_range(self.languages.edge_low.at[at], high, row)
                        marked = 1 + (high if high < 0x80 else high | (0x3F if high < 0x800 else 0xFFF if high < 0x10000
                                                                       else 0x3FFFF))
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
