"""Values and machines of plain schemas, compiled: from keywords to `Value`, from `Value` to machine states.

Both give up where a schema is not plain, and the twins in Python (`normal.normalise`, `machines.value`) take over; what
they make is the same, and so are the units of work (tests/test_schema_compiled.py, test_schema_machines_compiled.py).
"""
from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next
from cpython.long cimport PyLong_AsLong
from cpython.object cimport Py_EQ, PyObject_RichCompareBool
from cpython.ref cimport PyObject
from cython cimport final
from constrained._work cimport spent
from constrained.schema._scan cimport (
    ADDITIONAL, ANY_OF, are_near, Asker, below, each_below, each_of, ENUM, FORMAT, HIGHEST, ITEMS, kind_of, LEAST,
    LISTED, LONGEST, LOWEST, MOST, NULLABLE, OF_ANYTHING, OF_ARRAYS, OF_BOUNDS, OF_LENGTHS, OF_OBJECTS, OF_TYPES,
    ONE_OF, PATTERN, plain_words, PROPERTIES, REQUIRED, SHORTEST, TYPE, types_of, UNIQUE)

from fractions import Fraction
from constrained.caches import charge
from constrained.errors import LimitExceeded
from constrained.machine import Bytes, Edges, END, MarkerSafe, ObjectTable, Quoting, Text
from constrained.regex import ANY_TEXT, is_empty, literals, NEVER
from constrained.schema.key_masks import mask_of
from constrained.schema.normal.scalars import asserted_format
from constrained.schema.machines.object import ObjectMachine, TABLE_QUOTINGS
from constrained.schema.surfaces.punctuation import unmarked
from constrained.schema.normal.alternatives import joined_types
from constrained.schema.normal.alternatives import Mode, Query
from constrained.schema.number_texts import number_language
from constrained.schema.reading.interning import leaf
from constrained.schema.reading.document import NOTHING
from constrained.schema.reading.document import located, pointer_of
from constrained.schema.normal.plans import JoinKind
from constrained.schema.normal.scalars import (
    ARRAY, NO_SCALARS, OBJECT, of_types as scalars_of_types, SCALAR, TYPE_BITS)
from constrained.schema.strings.sets import of_length, of_pattern
from constrained.schema.values import ALWAYS, ArrayShape, NumberRange, ObjectShape, Value


# ======================================================================================================================
# The normal form of plain schemas, in one pass: of objects of which is said what their keys hold and which are
# required, of arrays of which is said what their items are and how many, and of scalars of some types with one limit,
# and of unions of types.
#
# Most schemas are such.  They are read as `normal.plans` sorts them, and `object_shapes` and `sketches` decide what
# they say: the same nodes in the same order, and the same units of work.
#
#     {"type": "object", "properties": …, "required": …, "additionalProperties": …}  ──►
# Value(objects=(ObjectShape(…),))
#     {"type": "array", "items": …, "minItems": …, "maxItems": …, "uniqueItems": …}  ──►  Value(arrays=(ArrayShape(…),))
#     {"type": "string", "enum": …}, {"type": ["integer", "null"], "minimum": …}, {"anyOf": [{"type": "string"}, …]}
#
# Owns: nothing.  Borrows: the tables of documents, in which nodes and answers are entered.
# Plain twin: `normalise.plain_value`; compared in tests/test_schema_compiled.py.
# ======================================================================================================================

cdef int _OBJECT = OBJECT, _ARRAY = ARRAY, _STRING = TYPE_BITS["string"], _NULL = TYPE_BITS["null"]
cdef int _NUMBER = TYPE_BITS["number"], _INTEGER = TYPE_BITS["integer"]
cdef object _ALWAYS = ALWAYS, _NOTHING = NOTHING
cdef object _Shape = ObjectShape, _ArrayShape = ArrayShape, _Value = Value
cdef object _Query = Query, _PLAIN = Mode.PLAIN, _SCALAR = SCALAR, _ANY = JoinKind.ANY, _ONE = JoinKind.ONE
cdef object _new_tuple = tuple.__new__
cdef frozenset _NO_KEYS = frozenset()
cdef tuple _NO_SCALARS = (NO_SCALARS.null, NO_SCALARS.booleans, NO_SCALARS.numbers, NEVER)
cdef tuple _ANY_ARRAYS = (ArrayShape(),), _NO_OTHERS = (), _ANY_OTHERS = ((ANY_TEXT, ALWAYS),)


cdef tuple _shapes(dict named, list required, others, bint bounded):
    """Return the objects of which this is said of the keys.  bounded: something is said of other keys."""
    cdef tuple cells = _ANY_OTHERS
    if required is not None:
        for key in required:
            if key not in named:
                named[key] = others
    spent(2 + len(named) * (2 if bounded else 1) // 4, None)
    if bounded:
        cells = _NO_OTHERS if PyObject_RichCompareBool(others, _NOTHING, Py_EQ) else ((ANY_TEXT, others),)
    if required is not None:
        for key in required:
            if PyObject_RichCompareBool(named[key], _NOTHING, Py_EQ):
                return ()
    # by way of a dictionary, as `objects.required` makes it: another order would be another amount of work now and then
    keys = _NO_KEYS if required is None else frozenset(dict.fromkeys(required))
    return (_new_tuple(_Shape, (tuple(named.items()), keys, cells, 0, None, ())),)


cdef tuple _objects(node, dict schema, dict words):
    """Return the objects of a schema."""
    cdef Py_ssize_t position = 0
    cdef PyObject* word
    cdef PyObject* value
    cdef PyObject* known
    cdef dict named = {}
    cdef list required = None
    cdef bint bounded = False, describes = False, stated = False
    cdef int says
    others = _ALWAYS
    while PyDict_Next(schema, &position, &word, &value):
        known = PyDict_GetItemWithError(words, <object>word)
        if known == NULL:
            continue
        says = PyLong_AsLong(<object>known)
        if says == PROPERTIES:
            named, describes = each_below(node, <dict><object>value, "properties"), True
        elif says == REQUIRED:
            required = <list><object>value
        elif says == ADDITIONAL:
            others = below(node, <object>value, "additionalProperties")
            bounded, stated = bool(others), True
    if describes and not stated and node.document.closed:
        for key in required or ():
            named.setdefault(key, _ALWAYS)
        others, bounded = _NOTHING, True
    return _shapes(named, required, others, bounded)


cdef tuple _arrays(node, dict schema, int said):
    """Return the arrays of a schema."""
    items = below(node, schema["items"], "items") if said & ITEMS else _ALWAYS
    least, most = schema["minItems"] if said & LEAST else 0, schema["maxItems"] if said & MOST else None
    unique = True if said & UNIQUE and schema["uniqueItems"] is True else None
    if PyObject_RichCompareBool(items, _NOTHING, Py_EQ):
        most = 0
    if most is not None:
        if most < least:
            return ()
        if most < 2:
            unique = None
    return (_new_tuple(_ArrayShape, ((), items, least, most, (), (), unique)),)


cdef _scalars(of_types, numbers, strings):
    """Return the value of some types with other numbers and strings."""
    return _new_tuple(_Value, (*(<tuple>of_types)[:2], numbers, strings, (), ()))


cdef _listed(list values, int types):
    """Return the value of the texts that a schema lists, and of null."""
    cdef list texts = [value for value in values if value is not None]
    cdef bint null = len(texts) < len(values) and (not types or types & _NULL)
    cdef bint some = len(texts) > 0 and (not types or types & _STRING)
    if null or some:
        spent(len(values) // 8, None)
    strings = literals(frozenset(texts)) if some else NEVER
    return _new_tuple(_Value, (null, *_NO_SCALARS[1:3], strings, (), ()))


cdef _strings(node, dict schema, int said):
    """Return the strings of some lengths, a pattern or a format."""
    if said & PATTERN:
        language = of_pattern(schema["pattern"])
    elif said & FORMAT:
        found = asserted_format(schema["format"], node)
        if found is None:
            return ANY_TEXT
        language = found.language
    else:
        least, most = schema["minLength"] if said & SHORTEST else 0, schema["maxLength"] if said & LONGEST else None
        if not least and most is None:
            return ANY_TEXT
        language = of_length(least, most)
    return NEVER if language is not ANY_TEXT and (language is NEVER or is_empty(language)) else language


cdef tuple _numbers(dict schema, int said, int types):
    """Return the numbers between some bounds."""
    low, high = schema["minimum"] if said & LOWEST else None, schema["maximum"] if said & HIGHEST else None
    whole = None if types & _NUMBER == _NUMBER else True
    if low is not None and high is not None:
        if low > high:
            return ()
        if low == high:
            whole = None
    return (NumberRange(
        whole, None if low is None else Fraction(low), False, None if high is None else Fraction(high), False),)


@final
cdef class Reader:
    """Reads plain schemas.  sorted_later: the plan of a node whose keywords are sorted, and paid for, but not written
    down; of_types: what knows the value of types of scalars; words: what says what the words of a dialect say;
    otherwise: what finds the value of other schemas; anything: the value of no conditions.
    """

    cdef object sorted_later, of_types, words, otherwise, anything
    cdef Asker asker

    def __init__(self, Asker asker, *, sorted_later, of_types, words, otherwise, anything):
        self.asker, self.sorted_later, self.of_types, self.words = asker, sorted_later, of_types, words
        self.otherwise, self.anything = otherwise, anything

    def normalise(self, conj):
        """As `normalise.normalise`."""
        cdef PyObject* known
        cdef dict memo
        if not conj:
            return self.anything
        document = next(iter(conj)).node.document
        memo = document.memo
        known = PyDict_GetItemWithError(memo, conj)
        if known != NULL:
            return <object>known
        with document.lock:
            try:
                found = self.settled(conj)
                if found is None:
                    found = self.otherwise(conj)
            except LimitExceeded as error:
                raise located(error, pointer_of(conj)) from None
            memo[conj] = found
        return found

    def value(self, node):
        """Return the value that belongs to a node that has no plan yet, its shapes perhaps empty; None: there is more
        to it.
        """
        cdef dict schema, words
        cdef int said, types, kind, scalars
        given = node.schema
        if type(given) is not dict:
            return None
        schema = <dict>given
        dialect = node.resource.dialect
        words = dialect.tables.get("plain values") or self.words(dialect)
        said = plain_words(schema, words)
        types = types_of(schema) if said & TYPE else 0
        if types and said & NULLABLE and dialect.nullable and schema["nullable"] is True:
            types |= _NULL
        kind = kind_of(said, types)
        if not kind or types & _NUMBER == _INTEGER and dialect.plain_integers:
            return None
        if kind == ANY_OF or kind == ONE_OF:
            return self.of_union(node, schema, words, kind)
        spent(1 + (len(schema) >> 2), None)
        node.plan = self.sorted_later
        if kind == LISTED:
            return _listed(schema["enum"] if said & ENUM else [schema["const"]], types)
        if kind == OF_ANYTHING:
            return _new_tuple(_Value, (*self.of_types(_SCALAR)[:4], _ANY_ARRAYS, _objects(node, schema, words)))
        scalars = types & ~(_ARRAY | _OBJECT)
        if kind == OF_TYPES:
            return self.of_types(scalars)
        if kind == OF_LENGTHS:
            found = self.of_types(scalars)
            return _scalars(found, (<tuple>found)[2], _strings(node, schema, said))
        if kind == OF_BOUNDS:
            found = self.of_types(scalars)
            return _scalars(found, _numbers(schema, said, types), (<tuple>found)[3])
        arrays = _arrays(node, schema, said) if kind == OF_ARRAYS else ()
        objects = _objects(node, schema, words) if kind == OF_OBJECTS else ()
        return _new_tuple(_Value, (*(self.of_types(scalars)[:4] if scalars else _NO_SCALARS), arrays, objects))

    cdef of_union(self, node, dict schema, dict words, int kind):
        """Return the value of a union of schemas that say of which types of scalars they are, and no more; None:
        another one.  As `alternatives._solve` works it off, its answers included.
        """
        cdef list parts = schema["anyOf" if kind == ANY_OF else "oneOf"], types = [], nodes
        cdef int bits
        for part in parts:
            if type(part) is not dict or "$ref" in <dict>part or plain_words(<dict>part, words) != TYPE:
                return None
            bits = types_of(<dict>part)
            if not bits or bits & (_ARRAY | _OBJECT):
                return None
            if bits & _NUMBER == _INTEGER and node.resource.dialect.plain_integers:
                return None
            types.append(bits)
        if not parts or not are_near(node, parts):
            return None
        spent(1 + (len(schema) >> 2), None)
        nodes = each_of(node, parts, "anyOf" if kind == ANY_OF else "oneOf")
        node.plan = self.sorted_later
        for part in nodes:
            if part.plan is None:
                spent(1 + (len(part.schema) >> 2), None)
                part.plan = self.sorted_later
        memo = node.document.memo
        spent(4, None)
        for at in range(len(nodes)):
            memo[_new_tuple(_Query, (nodes[at].positive, _SCALAR, _PLAIN))] = scalars_of_types(types[at])
            spent(4, None)
        found, units = joined_types(tuple(types), _ANY if kind == ANY_OF else _ONE)
        spent(units, None)
        memo[_new_tuple(_Query, (node.positive, _SCALAR, _PLAIN))] = found
        strings = found.strings
        return _new_tuple(_Value, (
            found.null, found.booleans, found.numbers, strings.expr() if strings else NEVER, (), ()))

    cdef settled(self, conj):
        """Return the value of a conjunction of which nobody has asked for its value; None: there is more to it, or a
        shape may be empty.
        """
        if len(conj) != 1:
            return None
        signed = next(iter(conj))
        node = signed.node
        if not signed.positive or node.plan is not None:
            return None
        found = self.value(node)
        if found is None:
            return None
        node.document.raw[conj] = found
        _, _, _, _, arrays, objects = found
        if arrays and arrays[0].min or objects and not self.asker.has_required(objects[0]):
            return None
        return found


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
    STATE = 2_000           # as in `value`: bytes of the machine of a leaf

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
    asker = getattr(never, "__self__", None)
    cdef Asker known = <Asker>asker if type(asker) is Asker else None
    for at in range(count):
        conj = conjs[at]
        if conj and (never(conj) if known is None else not known.live(conj)):
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

    cdef object values, punctuation, commons, value, never, choice
    cdef dict states
    cdef bint has_plain_objects, has_plain_arrays, ordered, marked

    def __init__(self, values, commons, choice):
        marks = values.punctuation
        self.values, self.punctuation, self.commons, self.choice = values, marks, commons, choice
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
        cdef PlainStates commons
        cdef LookedAt looked_at = LookedAt.__new__(LookedAt)
        looked_at.conj = conj
        spent(1, looked_at)
        common = leaf(conj)
        if common is None or self.commons is None and PyObject_RichCompareBool(common, conj, Py_EQ):
            return self.of_value(self.value(conj), conj)
        commons = self if self.commons is None else <PlainStates>self.commons
        return commons.of_leaf(common)

    cdef of_leaf(self, conj):
        """As `Values._leaf_state`."""
        cdef PyObject* known = PyDict_GetItemWithError(self.states, conj)
        if known != NULL:
            return <object>known
        charge(STATE)
        return self.states.setdefault(conj, self.of_value(self.value(conj), frozenset()))

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
