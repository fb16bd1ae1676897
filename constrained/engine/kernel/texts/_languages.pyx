# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Languages of text values: states over code points, interned as ints.

Three kinds: those that list their edges when asked (expressions, numbers); finite sets of texts, or one text, searched
in sorted arrays of code points without listing anything; and counted ones, C{m,n} of a class C, which have the ranges
of C and lead to C{m-1,n-1}.  PERF: to ask an expression for that takes 7 µs a character, a third of all that texts of
bounded length cost.

Edges are kept as ranges of code points with the number of a way each, and a target per way: languages that differ in
their targets only share the ranges (see `machine.Outline`).

Owns: the languages, their edges, the texts of finite sets.  Borrows: the kernel's meter of work.
Invariants: `at[i]` is one language for ever; its edges are sorted, disjoint and complete once `first >= 0`; a finite
set is the texts [low, high) of a sorted set that agree on `depth` characters, without the excluded ones, never empty; a
counted one is never C{0,0} or C{1,1}, and whoever names C{m,n} gets the number that was counted down to.
Plain twin: `machine.Language.edges` and `machine.LiteralSet`.
"""
from cython cimport final
from libc.stdint cimport int32_t, uint64_t, uint8_t
from constrained.engine.memory._memory cimport allotted, enlarged, released, MOST_ITEMS
from constrained.engine.memory._meter cimport Meter, TICKS, ask, work
from constrained.engine.kernel._tables cimport (
    Ints, Map, first_not_below, ints_free, ints_put, ints_room, map_add, map_find, map_free, map_get, map_put,
    map_room, pair)

from constrained.errors import LimitExceeded
from constrained.machine import LiteralSet
from constrained.regex.algebra import repeat
from constrained.regex.expr import LAZY, LITERAL, REPEAT, SET, Expr

cdef enum:
    ASKED = 256         # ticks that it takes to ask an object for its edges, and to list one of them
    LISTED = 32
    COUNTED = 10 * TICKS    # and what making and deriving C{m,n} takes, without its ranges
    MOST_COUNTED = 1 << 30  # characters that are counted; an expression counts more of them
    ENDLESS = -1
    LANGUAGE = 1000     # bytes of a language with the Python objects behind it, and of one of its edges
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
        cdef bint plain = type(language) is Expr    # PERF: asked in fewer words, as most are expressions
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
            known = self.fresh()
            self.at[known].accepts, self.at[known].goes_on = accepts, goes_on
            if not plain and getattr(language, "labelled", False):
                self.at[known].labelled, self.at[known].low = True, language.label
            self.objects[known] = language
        self.ids[language] = known
        return known

    cdef int fresh(self) except -1:
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
        self.bytes += LANGUAGE
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
        points = sum(map(len, texts))
        if points + len(texts) >= MOST_ITEMS:
            raise LimitExceeded("a set of texts is too large", because=f"it has {points:,} characters",
                                instead="fewer or shorter texts, or a pattern")
        if self.set_count == self.set_room:
            self.sets = <LiteralTexts*>enlarged(self.sets, &self.set_room, sizeof(LiteralTexts), 1)
        count = len(texts)
        entry.count = count
        entry.offset = <int32_t*>allotted(<size_t>count + 1 + <size_t>points, 4)
        entry.points = entry.offset + count + 1
        cdef str text_
        for text_ in texts:
            entry.offset[i] = total
            for character in text_:
                entry.points[total] = <int32_t>character
                total += 1
            i += 1
        entry.offset[count] = total
        self.sets[self.set_count] = entry
        # from here on it is freed with the others, also where the rest fails and it is never found again
        self.set_count += 1
        while len(self.set_objects) < self.set_count:
            self.set_objects.append(texts)
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
        known = self.fresh()
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
            known = self.fresh()
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
        # PERF: of expressions, only those that stand for another state share their ranges
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
