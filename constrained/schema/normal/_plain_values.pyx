# cython: language_level=3
"""The normal form of plain schemas, in one pass: of objects of which is said what their keys hold and which are
required, of arrays of which is said what their items are and how many, and of scalars of some types with one limit,
and of unions of types.

Most schemas are such.  They are read as `keywords.by_type` sorts them, and `object_shapes` and `sketches` decide what
they say: the same nodes in the same order, and the same units of work.

    {"type": "object", "properties": …, "required": …, "additionalProperties": …}  ──►  Value(objects=(ObjectShape(…),))
    {"type": "array", "items": …, "minItems": …, "maxItems": …, "uniqueItems": …}  ──►  Value(arrays=(ArrayShape(…),))
    {"type": "string", "enum": …}, {"type": ["integer", "null"], "minimum": …}, {"anyOf": [{"type": "string"}, …]}

Owns: nothing.  Borrows: the tables of documents, in which nodes and answers are entered.
Plain twin: `normalise.plain_value`; compared in tests/test_schema_compiled.py.
"""
from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next
from cpython.long cimport PyLong_AsLong
from cpython.object cimport Py_EQ, PyObject_RichCompareBool
from cpython.ref cimport PyObject
from cython cimport final
from constrained._work cimport spent
from constrained.schema.reading._nodes cimport are_near, below, each_below, each_of
from constrained.schema.normal._asker cimport Asker
from constrained.schema.normal._plain_words cimport (
    ADDITIONAL, ANY_OF, ENUM, FORMAT, HIGHEST, ITEMS, LEAST, LISTED, LONGEST, LOWEST, MOST, NULLABLE, OF_ANYTHING,
    OF_ARRAYS, OF_BOUNDS, OF_LENGTHS, OF_OBJECTS, OF_TYPES, ONE_OF, PATTERN, PROPERTIES, REQUIRED, SHORTEST, TYPE,
    UNIQUE, kind_of, plain_words, types_of)

from fractions import Fraction

from constrained.errors import LimitExceeded
from constrained.regex import ANY_TEXT, NEVER, is_empty, literals
from constrained.schema.keywords.scalars import asserted_format
from constrained.schema.normal.combine_scalars import joined_types
from constrained.schema.normal.requests import Mode, Query
from constrained.schema.reading.nodes import NOTHING
from constrained.schema.reading.places import located, pointer_of
from constrained.schema.sketches.operations import JoinKind
from constrained.schema.sketches.scalars import ARRAY, NO_SCALARS, OBJECT, SCALAR, TYPE_BITS
from constrained.schema.sketches.scalars import of_types as scalars_of_types
from constrained.schema.strings.sets import of_length, of_pattern
from constrained.schema.values import ALWAYS, ArrayShape, NumberRange, ObjectShape, Value

cdef int _OBJECT = OBJECT, _ARRAY = ARRAY, _STRING = TYPE_BITS["string"], _NULL = TYPE_BITS["null"]
cdef int _NUMBER = TYPE_BITS["number"]
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
    cdef bint bounded = False
    cdef int says
    others = _ALWAYS
    while PyDict_Next(schema, &position, &word, &value):
        known = PyDict_GetItemWithError(words, <object>word)
        if known == NULL:
            continue
        says = PyLong_AsLong(<object>known)
        if says == PROPERTIES:
            named = each_below(node, <dict><object>value, "properties")
        elif says == REQUIRED:
            required = <list><object>value
        elif says == ADDITIONAL:
            others = below(node, <object>value, "additionalProperties")
            bounded = bool(others)
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
        if not kind:
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
