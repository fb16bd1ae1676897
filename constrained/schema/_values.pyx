"""Plain objects: those whose keys have each a value of its own, and that no clause ties together, in a punctuation of
brackets and commas.

The facts about such an object go to a kernel (`machine.ObjectTable`) without a machine in Python, which is only made
for who expands its states one by one.

    PlainObjects.opened(shape, conj) ──► PlainObject

Owns: nothing.  Other objects, and all of them where there is no compiler: `object.ObjectMachine`.
"""
from cython cimport final
from constrained._work cimport spent

from constrained.machine import MarkerSafe, ObjectTable
from constrained.regex import ANY_TEXT
from constrained.schema.key_masks import mask_of
from constrained.schema.machines.object import ObjectMachine, TABLE_QUOTINGS
from constrained.schema.surfaces.punctuation import unmarked
from constrained.schema.reading.document import pointer_of
from constrained.work import PIECE


cdef enum:
    MOST_BITS = 62          # keys whose mask is one number of C

cdef object _new_tuple = tuple.__new__, _ANY_TEXT = ANY_TEXT
cdef tuple _QUOTINGS = TABLE_QUOTINGS


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
            self.position = ObjectMachine(self.values, self.shape, self.punctuation, self.conj).start
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
        spent(len(conjs), None)
        names = sorted(conjs)
        found = [conjs[name] for name in names]
        usable = _usable(found, never)
        self.conjs = (*found, *others)
        order = None
        if self.ordered:
            index = dict(zip(names, range(len(names))))
            order = [index[name] for name, _ in named]
        required = _required(names, required)
        special = frozenset(names)
        return _new_tuple(ObjectTable, (
            tuple(names), required, usable, special, languages, self.value, shared, least,
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


@final
cdef class PlainObjects:
    """Makes the states behind the opening bracket of plain objects, for a `value.Values`."""

    cdef object values, punctuation
    cdef bint are_plain, ordered, marked

    def __init__(self, values):
        marks = values.punctuation
        self.values, self.punctuation, self.ordered = values, marks, values.ordered
        self.marked = isinstance(marks.keys.quoting, MarkerSafe)
        self.are_plain = _is_plain(marks.objects) and marks.keys.within is None and int(marks.keys.quoting) in _QUOTINGS

    def opened(self, shape, conj):
        """Return the state behind the opening bracket of an object; None: it is not plain."""
        cdef PlainObject made
        quoting = self.quoting_of(shape) if self.are_plain else None
        if quoting is None:
            return None
        made = PlainObject.__new__(PlainObject)
        made.values, made.shape, made.punctuation, made.conj = self.values, shape, self.punctuation, conj
        made.quoting, made.ordered = quoting, self.ordered
        spent(4 + len((<tuple>shape)[0]), made)
        return made

    cdef quoting_of(self, shape):
        """Return the quoting of the keys of a plain object, None: it is not plain; see `ObjectMachine.table`."""
        cdef tuple named, cells
        named, required, cells, least, _, clauses = shape
        if len(named) > PIECE:      # loops of Python hand on their turn
            return None
        if clauses or cells and (len(cells) > 1 or cells[0][0] is not _ANY_TEXT):
            return None
        if self.ordered and not cells and least > len(required):
            return None
        if not self.marked:
            return self.punctuation.keys.quoting
        quoting = self.punctuation.keys.quoting if cells else unmarked(
            self.punctuation.keys.quoting, [name for name, _ in named])
        return None if isinstance(quoting, MarkerSafe) else quoting


cdef bint _is_plain(brackets) except -1:
    """Say whether entries stand between bytes, with separators between them only."""
    if brackets.trailing or brackets.lonely or brackets.leading:
        return False
    return brackets.end is None and brackets.bare is None
