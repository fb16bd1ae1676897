"""The machines of plain values, compiled: from `Value` to machine states; and copies of plain JSON.

Where a value is not plain, the twins in Python (`machines.value`) take over; what they make is the same, and so are the
units of work (tests/test_schema_machines_compiled.py).
"""
from cpython.dict cimport PyDict_Copy, PyDict_GetItemWithError, PyDict_Next, PyDict_SetItem
from cpython.object cimport Py_EQ, PyObject_RichCompareBool
from cpython.ref cimport PyObject
from cython cimport final
from libc.math cimport isfinite
from constrained._work cimport spent

from constrained.errors import LimitExceeded
from constrained.machine import Bytes, Edges, END, MarkerSafe, ObjectTable, Quoting, Text
from constrained.regex import ANY_TEXT, NEVER
from constrained.schema.key_masks import mask_of
from constrained.schema.machines.object import ObjectMachine, TABLE_QUOTINGS
from constrained.schema.surfaces.punctuation import unmarked
from constrained.schema.number_texts import number_language
from constrained.schema.reading.document import located, NOTHING, pointer_of


# ======================================================================================================================
# The machines of plain arrays and objects, and the state of a value: what most values of most schemas are.
#
# An array is plain whose items are all of one kind, compared with nothing and counted only by their number; an object
# whose keys have each a value of its own, and that no clause ties together.  Both in a punctuation of brackets and
# commas.  A position in such an array is four numbers, and the facts about such an object go to a kernel
# (`machine.ObjectTable`) without a machine in Python, which is only made for who expands its states one by one.
#
#     PlainStates.state(conj) ──► Bytes("[", PlainPosition)   Bytes("{", PlainObject)   Text   Choice
#
# The same states as `value`, `array` and `object` make, in the same order, and the same units of work.
#
# Owns: nothing.  Borrows: the states of `value.Values`, in which it enters those that it makes.
# Plain twin: `Values.state`, `array.ArrayMachine` and `object.ObjectMachine`; see
# tests/test_schema_machines_compiled.py.
# ======================================================================================================================

cdef enum:
    FIRST = 0
    AFTER = 1
    NEXT = 2
    LONGEST_ARRAY = 1 << 30       # bounds on the length of an array beyond which it is not plain
    MOST_BITS = 62          # keys whose mask is one number of C

cdef object _NOTHING = NOTHING, _new_tuple = tuple.__new__
cdef object _END = END, _Bytes = Bytes, _Edges = Edges, _Text = Text, _NEVER = NEVER
cdef object _ANY_TEXT = ANY_TEXT, _RAW = Quoting.RAW
cdef tuple _QUOTINGS = TABLE_QUOTINGS, _NEVER_COMPARED = (0, 1)

# -- arrays ------------------------------------------------------------------------------------------------------------

@final
cdef class PlainArray:
    """The machine of one shape, as `array.ArrayMachine`; compared by identity."""

    cdef readonly object values
    cdef object conj, items, item, comma, gap
    cdef tuple end          # the edge of the closing bracket
    cdef long least, most   # lengths; most: -1 for none, and see `limit`
    cdef long counts_to
    cdef bint is_limited    # whether `most` counts that there may be no item

    @property
    def place(self):
        """The pointer of the schema, for messages."""
        return pointer_of(self.conj)

    cdef bint continues(self, long length) except -1:
        """Say whether one more item may come."""
        if not self.is_limited:
            if self.items and (PyObject_RichCompareBool(self.items, _NOTHING, Py_EQ) or self.values.never(self.items)):
                self.most = 0
            self.is_limited = True
        return self.most < 0 or length < self.most and self.least <= self.most

    cdef PlainPosition at(self, int phase, bint padded, long length):
        cdef PlainPosition made = PlainPosition.__new__(PlainPosition)
        made.machine, made.phase, made.padded, made.length = self, phase, padded, length
        return made


@final
cdef class PlainPosition:
    """A position between the brackets, as `array.ArrayPosition`; equal positions have equal continuations."""

    cdef readonly PlainArray machine
    cdef int phase
    cdef bint padded        # whitespace may come
    cdef long length        # no further than the machine counts

    def __eq__(self, other):
        cdef PlainPosition position
        if type(other) is not PlainPosition:
            return False
        position = <PlainPosition>other
        return (self.machine is position.machine and self.phase == position.phase and self.padded == position.padded
                and self.length == position.length)

    def __hash__(self):
        return (<Py_ssize_t><void*>self.machine >> 4) * 1000003 ^ (8 * self.length + 2 * self.phase + self.padded)

    def expand(self):
        return self.located_edges(False)

    def way_out(self):
        """Return the edges of `State.way_out`: the bracket where it may come, else the comma or an item."""
        return self.located_edges(True)

    cdef located_edges(self, bint hurried):
        try:
            return self.edges(hurried)
        except LimitExceeded as error:
            raise located(error, self.machine.place) from None

    cdef edges(self, bint hurried):
        cdef PlainArray machine = self.machine
        cdef list calls = []
        cdef bint closes = self.length >= machine.least
        spent(6, machine)
        if self.phase == AFTER:
            if not (hurried and closes) and (hurried or machine.continues(self.length)):
                calls.append((machine.comma, machine.at(NEXT, False, self.length)))
        else:
            closes = closes and self.phase == FIRST
            if not (hurried and closes) and machine.continues(self.length):
                if machine.item is None:
                    machine.item = machine.values.state(machine.items)
                calls.append((machine.item, machine.at(
                    AFTER, machine.gap is not None, self.length + (self.length < machine.counts_to))))
        if self.padded and not hurried:
            calls.append((machine.gap, machine.at(self.phase, False, self.length)))
        return _new_tuple(_Edges, (machine.end if closes else (), tuple(calls), (), False))


# -- objects -----------------------------------------------------------------------------------------------------------

@final
cdef class PlainObject:
    """The position at the start of an object, where no key is written, and its facts, as `object.ObjectMachine`."""

    cdef object values, shape, punctuation, conj, quoting, table, position
    cdef tuple conjs        # of the keys and of the other keys
    cdef bint ordered

    @property
    def place(self):
        """The pointer of the schema, for messages."""
        return pointer_of(self.conj)

    @property
    def object_table(self):
        if self.table is None:
            self.table = self.facts()
        return self.table

    def expand(self):
        return self.start().expand()

    def way_out(self):
        return self.start().way_out()

    def value(self, int which):
        """Return what reads the value of a key, or of the other keys."""
        return self.values.state(self.conjs[which])

    cdef start(self):
        if self.position is None:
            self.position = ObjectMachine(self.values, self.shape, self.punctuation, self.conj, paid=True).start
        return self.position

    cdef facts(self):
        """Return the object as a table; the values are asked in the order in which `ObjectMachine.table` asks them."""
        cdef tuple named, cells, languages = (), shared = (), others = ()
        cdef dict conjs
        cdef list names, found
        never, marks, shape = self.values.never, self.punctuation, self.shape
        named, required, cells, least, most, _ = shape
        if cells:
            conj = (<tuple>cells[0])[1]
            if not (conj and never(conj)):
                languages, others = (_ANY_TEXT,), (conj,)
                shared = (None if conj else (marks, self.ordered),)
        conjs = dict(named)
        names = sorted(conjs)
        found = [conjs[name] for name in names]
        usable = _usable(found, never)
        self.conjs = (*found, *others)
        order = None
        if self.ordered:
            index = dict(zip(names, range(len(names))))
            order = [index[name] for name, _ in named]
        return _new_tuple(ObjectTable, (
            tuple(names), _required(names, required), usable, frozenset(names), languages, self.value, shared, least,
            most, self.quoting, marks.comma, marks.keys.colon, marks.gap, marks.objects.closing, order,
            (),
        ))


cdef _usable(list conjs, never):
    """Return the keys that have a value, as bits."""
    cdef Py_ssize_t at, count = len(conjs)
    cdef list dead = []
    for at in range(count):
        conj = conjs[at]
        if conj and never(conj):
            dead.append(at)
    every = (<object>1 << count) - 1 if count > MOST_BITS else (<long long>1 << count) - 1
    return every ^ mask_of(dead, count) if dead else every


cdef _required(list names, required):
    """Return the keys that an object must have, as bits."""
    cdef Py_ssize_t at, count = len(names)
    cdef unsigned long long mask = 0
    if not required:
        return 0
    if count > MOST_BITS:
        return mask_of([at for at in range(count) if names[at] in required], count)
    for at in range(count):
        if names[at] in required:
            mask |= <unsigned long long>1 << at
    return mask


# -- unions ------------------------------------------------------------------------------------------------------------

def choice_edges(choice):
    """Return the edges of a `value.Choice`, as its method."""
    cdef dict ranges = {}, tokens = {}
    cdef list calls = []
    for state in <tuple>(<tuple>choice)[0]:
        if type(state) is _Text:
            calls.append((state, _END))
        elif type(state) is _Bytes:
            data, then = <tuple>state
            if len(data) > 1:
                then = _new_tuple(_Bytes, (data[1:], then))
            ranges[data[0], data[0], then] = None
        else:
            edges = state.expand()
            ranges.update(dict.fromkeys(edges.ranges))
            calls += edges.calls
            tokens.update(dict.fromkeys(edges.tokens))
    return _new_tuple(_Edges, (tuple(ranges), tuple(calls), tuple(tokens), False))


# -- values ------------------------------------------------------------------------------------------------------------

@final
cdef class LookedAt:
    """What is being looked at, as `document.At`."""

    cdef object conj

    @property
    def place(self):
        return pointer_of(self.conj)


@final
cdef class PlainStates:
    """Makes the states of a `value.Values`, and keeps them there."""

    cdef object values, punctuation, value, never, choice
    cdef dict states
    cdef bint has_plain_objects, has_plain_arrays, ordered, marked

    def __init__(self, values, choice):
        marks = values.punctuation
        self.values, self.punctuation, self.choice = values, marks, choice
        self.value, self.never, self.states = values.value, values.never, values.states
        self.ordered, self.marked = values.ordered, isinstance(marks.keys.quoting, MarkerSafe)
        self.has_plain_objects = _is_plain(marks.objects) and marks.keys.within is None and int(
            marks.keys.quoting) in _QUOTINGS
        self.has_plain_arrays = len(marks.arrays) == 1 and _is_plain(marks.arrays[0])

    def state(self, conj):
        """As `Values.state`."""
        cdef PyObject* known = PyDict_GetItemWithError(self.states, conj)
        if known != NULL:
            return <object>known
        return self.states.setdefault(conj, self.made(conj))

    cdef made(self, conj):
        cdef LookedAt looked_at = LookedAt.__new__(LookedAt)
        looked_at.conj = conj
        spent(1, looked_at)
        return self.of_value(self.value(conj), conj)

    cdef of_value(self, value, conj):
        """As `Values.alternatives`, joined."""
        cdef list found = []
        cdef int index
        marks = self.punctuation
        null, booleans, numbers, strings, arrays, objects = value
        if objects:
            found.append(_new_tuple(_Bytes, (marks.objects.opening, self.opened_object(objects, conj))))
        if arrays:
            for index in range(len(marks.arrays)):
                start = self.opened_array(arrays, index, conj)
                found.append(_new_tuple(_Bytes, (marks.arrays[index].opening, start)))
        if strings is not _NEVER:
            found.append(_new_tuple(_Text, (marks.strings, strings)) if strings is _ANY_TEXT and marks.quote is None
                         else self.values.string(strings))
        if numbers:
            found.append(_new_tuple(_Text, (_RAW, number_language(numbers, marks.numbers))))
        if booleans:
            for boolean in sorted(booleans):
                found.append(_new_tuple(_Bytes, (marks.true if boolean else marks.false, _END)))
        if null:
            found.append(_new_tuple(_Bytes, (marks.null, _END)))
        return found[0] if len(found) == 1 else _new_tuple(self.choice, (tuple(found),))

    cdef opened_object(self, objects, conj):
        """Return the state after the opening bracket of an object."""
        cdef PlainObject made
        if self.has_plain_objects and len(objects) == 1:
            quoting = self.quoting_of(objects[0])
            if quoting is not None:
                made = PlainObject.__new__(PlainObject)
                made.values, made.shape, made.punctuation, made.conj = self.values, objects[0], self.punctuation, conj
                made.quoting, made.ordered = quoting, self.ordered
                spent(4 + len((<tuple>objects[0])[0]), made)
                return made
        return self.values.opened_object(objects, self.punctuation, conj)

    cdef quoting_of(self, shape):
        """Return the quoting of the keys of a plain object, None: it is not plain; see `ObjectMachine.table`."""
        cdef tuple named, cells
        named, required, cells, least, _, clauses = shape
        if clauses or cells and (len(cells) > 1 or cells[0][0] is not _ANY_TEXT):
            return None
        if self.ordered and not cells and least > len(required):
            return None
        if not self.marked:
            return self.punctuation.keys.quoting
        quoting = self.punctuation.keys.quoting if cells else unmarked(
            self.punctuation.keys.quoting, [name for name, _ in named])
        return None if isinstance(quoting, MarkerSafe) else quoting

    cdef opened_array(self, arrays, int brackets, conj):
        """Return the state after the opening bracket of an array."""
        cdef PlainArray made
        if self.has_plain_arrays and len(arrays) == 1:
            prefix, rest, least, most, counts, clauses, unique = arrays[0]
            if not (prefix or counts or clauses or unique is not None and most not in _NEVER_COMPARED) and (
                    least < LONGEST_ARRAY and (most is None or most < LONGEST_ARRAY)):
                made = PlainArray.__new__(PlainArray)
                made.values, made.conj, made.items, made.least = self.values, conj, rest, least
                made.most = -1 if most is None else most
                made.counts_to = least if most is None else most
                marks = self.punctuation
                closing = marks.arrays[0].closing
                made.comma, made.gap, made.end = marks.comma, marks.gap, ((closing, closing, _END),)
                return made.at(FIRST, made.gap is not None, 0)
        return self.values.opened_array(arrays, brackets, conj)


cdef bint _is_plain(brackets) except -1:
    """Say whether entries stand between bytes, with separators between them only."""
    if brackets.trailing or brackets.lonely or brackets.leading:
        return False
    return brackets.end is None and brackets.bare is None


# ======================================================================================================================
# Copies of schemas that are nothing but JSON, in one pass.  And the size of anything.
#
# Owns: nothing.  Strings and numbers are shared with what is copied, as nobody can change them.
# Without a compiler `by_content._is_within` counts, and what is read is copied as it is read.
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
