"""The automaton for the units above it; explained in _automaton.pyx."""
from cython cimport final
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t
from constrained.engine.kernel._texts cimport Positions
from constrained.engine.memory._memory cimport Arena, Ints, Map, Meter
from constrained.engine.tokens._tokens cimport Trie


cdef struct Mask:               # the blocks that may differ follow in memory, each as its number and its words
    const uint32_t* base        # borrowed from an IndependentMask that lives as long; NULL: no token
    int64_t count               # of blocks; -1: all words instead


cdef enum:
    EXPANDED = 1        # flags of a machine state
    ACCEPTING = 2
    DISPATCH = 4
    RECORDS = 8
    TAIL = 16
    REFUSES = 32        # a Dispatch that may refuse a text
    ALIKE = 64          # a Dispatch to which texts are alike that it does not name, see `machine.Dispatch`
    KEYED = 128         # and one whose texts are keys


cdef struct Machine:
    int32_t ranges, ranges_end      # triples low, high, target
    int32_t calls, calls_end        # pairs callee, after
    int32_t tokens, tokens_end      # pairs id, target
    int32_t quoting                 # of a Text, else -1
    int32_t set, extra, more        # of a state of an object; see `Objects`
    uint8_t kind                    # of an object's states, PLAIN: any other state
    uint8_t flags
    uint64_t seen                   # the closure that came by last, kept here for `Closure`


@final
cdef class Machines:
    cdef Machine* at
    cdef int count, room
    cdef list objects               # what each machine was made from, None: only what stands here
    cdef Ints ranges, calls, tokens
    cdef long bytes                 # that the machines take; an estimate

    cdef int fresh(self, object state) except -1
    cdef int add_range(self, int machine, int low, int high, int target) except -1
    cdef int set_calls(self, int machine, const Ints* pairs) except -1
    cdef int set_edges(self, int machine, const Ints* ranges, const Ints* calls, const Ints* tokens) except -1
    cdef int clear(self) except -1
    cdef void release(self) noexcept nogil


cdef struct Table:
    int names, width, least, most   # width: 32-bit words of a set of names; most: -1 for no bound
    int counts_to                   # numbers of keys above it are all the same
    int texts, quoting, closing, cells
    int blank                       # the empty set, -1: not asked for
    int comma, colon, gap           # machine states, -1: none
    int choices                     # sets of names of which one must be written
    int32_t* required               # with the next six in one block
    int32_t* usable
    int32_t* values                 # machine state of each name's value and then of each cell's, -1: not asked yet
    int32_t* languages              # Text machine of each cell
    int32_t* order                  # labels of the names as they have to come, NULL: in any order
    int32_t* ranks                  # place of each label in `order`
    int32_t* chosen                 # the bits of each choice


cdef struct Written:
    int table, words, others, count # words: where its bits start in set_words
    int rank                        # in order: of the first name that may still come; all before it are written


@final
cdef class WrittenKeys:
    cdef Meter meter                # borrowed
    cdef long bytes                 # that the sets take; an estimate
    cdef Table* tables
    cdef int table_count, table_room
    cdef list table_objects         # ObjectTable of each table
    cdef dict table_ids
    cdef Ints set_words
    cdef Written* sets
    cdef int set_count, set_room
    cdef Map set_ids
    cdef Ints set_next
    cdef list others                # written keys without a name: (those before, the last); others[0] is none
    cdef dict others_ids
    cdef dict others_of             # entry of `others` -> all texts up to it, for a few of them

    cdef int find(self, object table) except -2
    cdef int add(self, object table, int texts, int comma, int colon, int gap, list cells) except -1
    cdef int empty_set(self, int table) except -1
    cdef int with_name(self, int set_, int label) except -1
    cdef int with_other(self, int set_, object text) except -1
    cdef int set_of(self, int table, object written, object texts, int count, int rank) except -1
    cdef object unnamed(self, int set_)
    cdef int missing(self, const Written* w, const Table* t) noexcept
    cdef int offer(self, const Written* w, const Table* t, int32_t* offers, int* needed) noexcept
    cdef int clear(self) except -1
    cdef void release(self) noexcept
    # internals
    cdef int forget(self) except -1
    cdef int lay_out(self, Table* t, object table, list cells) except -1
    cdef bint is_blank(self, int set_) noexcept
    cdef int counted(self, const Written* w) noexcept
    cdef int settle_set(self, int table, int others, int count, int rank) except -1
    cdef int copy_set(self, int set_) except -1
    cdef int one_more(self, int others, object text) except -1
    cdef int pass_names(self, int first, const Written* w, int rank) noexcept
    cdef int offer_in_order(self, const Written* w, const Table* t, int32_t* offers) noexcept


cdef enum Kind:
    PLAIN, POSITION, ENTRY, BEGIN, NAMED, OTHER

cdef enum Phase:
    FIRST, AFTER, NEXT

cdef enum:
    QUOTINGS = 8


cdef struct Ways:               # in which a quoting writes a text
    int count                   # 0: not asked for
    int opening[2]              # the quote of each
    int spelling[2]


@final
cdef class Objects:
    cdef Meter meter                # borrowed, as the next two
    cdef Machines machines
    cdef Positions positions
    cdef WrittenKeys keys           # owned
    cdef Ways ways[QUOTINGS]
    cdef Map state_ids, text_machines
    cdef Ints calls, offers         # of the position that is being laid out: edges; bits of names that may come

    cdef int add(self, object table, int comma, int colon, int gap, list cells) except -1
    cdef int learn_ways(self, object quoting) except -1
    cdef int start(self, int table) except -1
    cdef int place(self, int table, object described) except -1
    cdef int state(self, int kind, int set_, int extra, int more) except -1
    cdef int expand_position(self, int at, int end) except -1
    cdef int value(self, const Machine* m) noexcept
    cdef object value_object(self, const Machine* m)
    cdef int keep_value(self, const Machine* m, int value) noexcept
    cdef int expand(self, int at, int value, int end) except -1
    cdef int behind_name(self, int after, int label) except -1
    cdef int behind_other(self, int after, object text) except -1
    cdef int lonely_entry(self, int after) except -1
    cdef object shared_name(self, int after)
    cdef int position_behind(self, int after) except -1
    cdef int position_after(self, int set_) except -1
    cdef bint is_special(self, int after, object text) except -1
    cdef tuple names(self, int after)
    cdef object unnamed(self, int after)
    cdef int clear(self) except -1
    cdef void release(self) noexcept
    # internals
    cdef int literal_text(self, int table, int32_t* offers) except -1
    cdef int call(self, int callee, int after) except -1


@final
cdef class Expansion:
    cdef Meter meter                # borrowed, as the next four
    cdef Machines machines
    cdef Objects objects
    cdef Positions positions
    cdef object specials            # name of a special token -> id
    cdef dict ids                   # machine state -> its number
    cdef Ints ranges, calls, tokens # of the state that is being expanded

    cdef int number(self, object state) except -1
    cdef int expand(self, int at) except -1
    cdef int value(self, const Machine* m) except -1
    cdef int clear(self) except -1
    # internals
    cdef int number_table(self, object described) except -1
    cdef int number_raw(self, object text) except -1
    cdef int number_machine(self, object state) except -1
    cdef int lay_out_bytes(self, int at, bytes data, object then) except -1
    cdef int lay_out_text(self, int at, object text) except -1
    cdef int expand_plain(self, int at) except -1


cdef enum:
    BOTTOM = 0          # the stack that is empty: an accepting machine ends the word
    OUTSIDE = 1         # the stack of a context-independent mask: an accepting machine leaves the text
    ENDS = -1           # `after` of the only frame of BOTTOM, and of OUTSIDE
    LEAVES = -2


@final
cdef class Stacks:
    cdef Meter meter                # borrowed
    cdef long bytes                 # that the stacks take; an estimate
    # stack i: frames[first[i] : first[i + 1]], triples (after, record or -1, parent) sorted by (after, record)
    cdef Ints frames, first
    cdef Map ids, unions, pushed, stepped
    cdef Ints next                  # the next stack with the same hash, -1: none
    # records: bytes of a text that a Dispatch wants to know; record r < 8 is the empty one of quoting r
    cdef Ints record_parent, record_byte
    cdef Map record_ids

    cdef int push(self, int after, int record, int stack) except -1
    cdef int merge(self, int x, int y, int level) except -1
    cdef int record_step(self, int stack, int byte) except -1
    cdef bint records(self, int stack) noexcept
    cdef object recorded(self, int record, bytes closing)
    cdef int clear(self) except -1
    cdef void release(self) noexcept nogil
    # internals
    cdef int begin(self) noexcept
    cdef int settle(self, int first) except -1
    cdef int merge_frames(self, int x, int y, int level, Ints* merged) except -1
    cdef int record_with(self, int record, int byte) except -1
    cdef void sort_frames(self, int first) noexcept


@final
cdef class Dispatches:
    cdef Meter meter                # borrowed, as the next five
    cdef Expansion expansion
    cdef Machines machines
    cdef Objects objects
    cdef Stacks stacks
    cdef Positions positions
    cdef Map by_label, by_record    # (Dispatch, label or record) -> what follows, and one, or 0: refused
    cdef dict sorted_texts          # set of texts -> sorted, for a few sets

    cdef int returned(self, int q, int after, int record) except -2
    cdef int following(self, int after, object text) except -2
    cdef bint is_special(self, int after, object text) except -1
    cdef list special_texts(self, int after, str start, int most)
    cdef int tells_from(self, int after) except -2
    cdef bytes told_by(self, int after)
    cdef int clear(self) except -1


cdef enum:
    FINAL = 1           # flags of an automaton state: the bytes so far are a word
    EXITS = 2           # a text read on its own has ended


@final
cdef class Closure:
    cdef Meter meter                # borrowed, as the next five
    cdef Machines machines
    cdef Stacks stacks
    cdef Positions positions
    cdef Expansion expansion
    cdef Dispatches dispatches
    cdef long most                  # configurations
    # the result of `close`: pairs (machine state, stack), sorted, one for each machine state, those that read something
    cdef Ints closed
    cdef int flags                  # of what has ended
    # scratch: configurations to be added, where a machine state stands in `closed`, where it is long
    cdef Ints work
    cdef Map closed_at
    # machine states that call others, callees first; a way down to one, with the next call of each
    cdef Ints order, trail
    # even: of machine states that are in order, one more: of those that have passed their stacks on
    cdef uint64_t number

    cdef int close(self, const Ints* seeds) except -1
    cdef int clear(self) except -1
    cdef void release(self) noexcept
    # internals
    cdef bint take_closed(self, const Ints* seeds) except -1
    cdef bint stands(self, int q) noexcept
    cdef int reach_all(self, const Ints* seeds) except -1
    cdef int reach_work(self) except -1
    cdef int reach(self, int q, int stack) except -1
    cdef bint join(self, int q, int stack) except -1
    cdef int find(self, int q) noexcept
    cdef int index(self) except -1
    cdef int return_from(self, int q, int stack) except -1
    cdef int pop(self, int q, int stack) except -1
    cdef bint call_all(self) except -1
    cdef bint call(self, int stack, int callee, int after) except -1
    cdef int put_in_order(self, int machine) except -1
    cdef bint visit(self, int machine) except -1
    cdef bint reads(self, int q) except -1
    cdef void insert(self, int kept, int q, int stack) noexcept


cdef enum:
    DEAD = 0            # the state without configurations, after which no word goes on
    UNKNOWN = -1
    NAME = 256          # symbols are bytes, and NAME + t for a token t that the machine names


cdef struct Row:                    # 256 successors: DEAD, UNKNOWN or a state each
    int32_t* block[16]              # by the upper half of the byte; `dead_block` and `unknown_block` are shared


cdef struct State:
    # numbers in `configurations`: pairs machine state, stack
    int32_t first, count
    Row* row                        # or NULL
    Mask* mask                      # kept here for `Composer`; NULL: not asked for yet
    int32_t light                   # kept here for `Walk`: the state without its texts, or UNKNOWN
    # without a row: the one successor that has been asked for, or UNKNOWN, and its byte
    int32_t only
    uint8_t only_byte
    uint8_t flags


cdef inline int successor(const Row* row, int byte) noexcept nogil:
    return row.block[byte >> 4][byte & 15]


cdef inline int known_successor(const State* state, int byte) noexcept nogil:
    """Return the successor of a state if it has been asked for before or its row says so, else UNKNOWN."""
    if state.row != NULL:
        return successor(state.row, byte)
    return state.only if state.only_byte == byte else UNKNOWN


@final
cdef class Automaton:
    cdef Meter meter                # borrowed, as the next five
    cdef Closure closure
    cdef Machines machines
    cdef Stacks stacks
    cdef Positions positions
    cdef Trie trie
    cdef long bytes                 # that states and rows take; an estimate
    cdef State* states
    cdef int count, room
    cdef Ints configurations
    cdef Map ids
    cdef Ints next                  # the next state with the same hash, -1: none
    cdef Map named                  # (state, token) -> the successor over a token that the machine names
    cdef Arena rows                 # memory of rows and their blocks
    cdef int32_t* marks             # (256,) a row in the making; zeros between
    cdef int32_t* dead_block        # (16,) DEAD
    cdef int32_t* unknown_block     # (16,) UNKNOWN
    cdef Ints seeds                 # configurations that are about to be closed
    cdef int low, high              # bytes around the one of a step that lead to the same state

    cdef int enter(self, int q, int stack, int flags) except -1
    cdef int close(self, const Ints* seeds, int flags) except -1
    cdef int intern(self, const Ints* configurations, int flags) except -1
    cdef Row* row(self, int state) except NULL
    cdef Row* marked_row(self) except NULL
    cdef int step(self, int state, int byte) except -1
    cdef int next_state(self, int state, int byte) except -1
    cdef bint goes_on(self, int state, int byte) except -1
    cdef int follow(self, int state, uint64_t* bytes_) except -1
    cdef int after_token(self, int state, int token) except -1
    cdef set named_tokens(self, int state)
    cdef int drop(self) noexcept
    cdef int clear(self) except -1
    cdef void release(self) noexcept nogil
    # internals
    cdef int mark(self, int state) except -1
    cdef int32_t* own_block(self, const int32_t* block) except NULL
    cdef int set_successor(self, Row* row, int byte, int target) except -1
    cdef int keep(self, int state, int byte, int target) except -1
    cdef int moved(self, int state, int symbol) except -1
    cdef int seed_byte(self, int state, int byte) except -1
    cdef int seed_name(self, int state, int token) except -1
    cdef int target(self, int q, int byte) except -2
    cdef int after_name(self, int state, int token) except -1
    cdef int keep_name(self, int state, int token, int target) except -1
    cdef int add(self, const Ints* configurations, int flags) except -1
