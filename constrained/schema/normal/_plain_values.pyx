# cython: language_level=3
"""The normal form of plain schemas, in one pass: of objects of which is said what their keys hold and which are
required, of arrays of which is said what their items are and how many, and of scalars of a type or a few texts.

Most schemas are such.  They are read as `keywords.by_type` sorts them, and `object_shapes` and `sketches` decide what
they say: the same nodes in the same order, and the same units of work.  References and subschemas of other keys go to
`Node.below`.

    {"type": "object", "properties": …, "required": …, "additionalProperties": …}  ──►  Value(objects=(ObjectShape(…),))
    {"type": "array", "items": …, "minItems": …, "maxItems": …, "uniqueItems": …}  ──►  Value(arrays=(ArrayShape(…),))
    {"type": "string", "enum": …}, {"type": "boolean"}, {"type": ["number", "null"]}

Also here: `is_never` of what is known or plainly live, which is asked of every key that an object has.

Owns: nothing.  Borrows: the tables of documents, in which nodes and answers are entered.
Plain twin: `normalise.plain_value` and `normalise.PlainAsker`; compared in tests/test_schema_compiled.py.
"""
from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next
from cpython.long cimport PyLong_AsLong, PyLong_FromVoidPtr
from cpython.object cimport Py_EQ, PyObject_RichCompareBool
from cpython.ref cimport PyObject
from cython cimport final

from constrained.regex import ANY_TEXT, NEVER, literals
from constrained.schema.reading.nodes import NOTHING, Node, serials
from constrained.schema.sketches.scalars import ARRAY, NO_SCALARS, OBJECT, TYPE_BITS
from constrained.schema.values import ALWAYS, ArrayShape, ObjectShape, SignedNode, Value
from constrained.work import spend

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)

cdef enum Word:
    # what a keyword says, as a bit
    OTHER = 1       # of which nothing is known here
    TYPE = 2
    PROPERTIES = 4
    REQUIRED = 8
    ADDITIONAL = 16
    ITEMS = 32
    LEAST = 64
    MOST = 128
    UNIQUE = 256
    ENUM = 512
    CONST = 1024
    # what plain schemas say
    OF_OBJECTS = TYPE | PROPERTIES | REQUIRED | ADDITIONAL
    OF_ARRAYS = TYPE | ITEMS | LEAST | MOST | UNIQUE
    LISTED = ENUM | CONST

cdef dict _WORDS = {
    "type": TYPE, "properties": PROPERTIES, "required": REQUIRED, "additionalProperties": ADDITIONAL, "items": ITEMS,
    "minItems": LEAST, "maxItems": MOST, "uniqueItems": UNIQUE, "enum": ENUM, "const": CONST,
}
cdef dict _TYPE_BITS = TYPE_BITS
cdef int _OBJECT = OBJECT, _ARRAY = ARRAY, _STRING = TYPE_BITS["string"]
cdef object _ALWAYS = ALWAYS, _NOTHING = NOTHING, _Node = Node, _SignedNode = SignedNode, _serials = serials
cdef object _Shape = ObjectShape, _ArrayShape = ArrayShape, _Value = Value
cdef object _new_tuple = tuple.__new__, _new = object.__new__
cdef frozenset _NO_KEYS = frozenset()
cdef tuple _NO_SCALARS = (NO_SCALARS.null, NO_SCALARS.booleans, NO_SCALARS.numbers, NEVER, ())
cdef tuple _NO_OTHERS = (), _ANY_OTHERS = ((ANY_TEXT, ALWAYS),)


def words_of(keywords):
    """Return what words say, of a dialect's keywords and `nullable`."""
    return {word: _WORDS.get(word, OTHER) for word in (*keywords, "nullable")}


cdef bint _are_names(keys) except -1:
    """Say whether keys are texts of ASCII, which all ways of writing spell."""
    for key in keys:
        if type(key) is not str or not PyUnicode_IS_ASCII(key):
            return False
    return True


cdef int _types(dict schema) except -1:
    """Return the bits of the types that a schema says it is of; 0: it does not."""
    cdef int bits = 0
    cdef PyObject* known = PyDict_GetItemWithError(schema, "type")
    if known == NULL:
        return 0
    if type(<object>known) is str:
        return _TYPE_BITS.get(<object>known, 0)
    if type(<object>known) is list:
        for name in <list><object>known:
            if type(name) is not str:
                return 0
            bits |= <int>_TYPE_BITS.get(name, 0)
    return bits


cdef bint _is_plain_value(int says, value) except -1:
    """Say whether the value of a keyword is of the usual form."""
    if says == PROPERTIES:
        return type(value) is dict and _are_names(<dict>value)
    if says == REQUIRED:
        return type(value) is list and _are_names(<list>value)
    if says == ITEMS:
        return type(value) is dict or type(value) is bool
    if says == LEAST or says == MOST:
        return type(value) is int and value >= 0
    if says == UNIQUE:
        return type(value) is bool
    if says == ENUM:
        return type(value) is list and value and _are_names(<list>value)
    if says == CONST:
        return type(value) is str and PyUnicode_IS_ASCII(value)
    return True


cdef int _plain_words(dict schema, dict words) except -1:
    """Return what the keywords of a schema say, as bits; 0: something is unusual."""
    cdef Py_ssize_t position = 0
    cdef PyObject* word
    cdef PyObject* value
    cdef PyObject* known
    cdef int says, said = 0
    while PyDict_Next(schema, &position, &word, &value):
        known = PyDict_GetItemWithError(words, <object>word)
        if known == NULL:
            continue
        says = PyLong_AsLong(<object>known)
        if says == OTHER or not _is_plain_value(says, <object>value):
            return 0
        said |= says
    return said


cdef _node(document, schema, resource, where):
    """Return a new node, as `Node(document, schema, resource, (), where)`."""
    node = _new(_Node)
    positive = _new(_SignedNode)
    positive.node, positive.positive = node, True
    node.document, node.schema, node.resource, node.scope, node.where = document, schema, resource, (), where
    node.inside = node.plan = None
    node.positive, node.conj, node.serial = positive, frozenset((positive,)), next(_serials)
    return node


cdef inline _plainly(schema):
    """Return the conjunction of a schema that says yes or no to everything; None: it says more."""
    if schema is True or type(schema) is dict and not <dict>schema:
        return _ALWAYS
    return _NOTHING if schema is False else None


cdef dict _properties(node, dict schemas):
    """Return the subschemas of properties, as `Node.each_below`."""
    cdef Py_ssize_t position = 0
    cdef PyObject* name
    cdef PyObject* schema
    cdef PyObject* known
    cdef dict found = {}, nodes, embedded
    document, resource = node.document, node.resource
    library = document.library
    if node.scope or library.dynamic:
        return node.each_below(schemas.items(), "properties")
    inside, nodes, embedded = node.entered("properties"), document.nodes, library.embedded
    while PyDict_Next(schemas, &position, &name, &schema):
        part = <object>schema
        plainly = _plainly(part)
        if plainly is not None:
            found[<object>name] = plainly
            continue
        if type(part) is not dict or "$ref" in <dict>part:
            found[<object>name] = node.below(part, "properties", <object>name)
            continue
        place = PyLong_FromVoidPtr(<void*>part)
        known = PyDict_GetItemWithError(nodes, place)
        if known != NULL:
            found[<object>name] = (<object>known).conj
            continue
        known = PyDict_GetItemWithError(embedded, place)
        made = _node(document, part, resource if known == NULL else <object>known, (inside, <object>name))
        nodes[place] = made
        found[<object>name] = made.conj
    return found


cdef _value(dict named, list required, others, bint bounded):
    """Return the value of what is said of the keys.  bounded: something is said of other keys."""
    cdef tuple cells = _ANY_OTHERS
    if required is not None:
        for key in required:
            if key not in named:
                named[key] = others
    spend(2 + len(named) * (2 if bounded else 1) // 4)
    if bounded:
        cells = _NO_OTHERS if PyObject_RichCompareBool(others, _NOTHING, Py_EQ) else ((ANY_TEXT, others),)
    if required is not None:
        for key in required:
            if PyObject_RichCompareBool(named[key], _NOTHING, Py_EQ):
                return _new_tuple(_Value, (*_NO_SCALARS, ()))
    # by way of a dictionary, as `objects.required` makes it: another order would be another amount of work now and then
    keys = _NO_KEYS if required is None else frozenset(dict.fromkeys(required))
    shape = _new_tuple(_Shape, (tuple(named.items()), keys, cells, 0, None, ()))
    return _new_tuple(_Value, (*_NO_SCALARS, (shape,)))


cdef _object(node, dict schema, dict words):
    """Return the value of a schema of objects."""
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
            named = _properties(node, <dict><object>value)
        elif says == REQUIRED:
            required = <list><object>value
        elif says == ADDITIONAL:
            others = _plainly(<object>value)
            if others is None:
                others = node.below(<object>value, "additionalProperties")
            bounded = bool(others)
    return _value(named, required, others, bounded)


cdef _items(node, part):
    """Return what an array's items are, as `Node.below`."""
    cdef PyObject* known
    cdef dict nodes
    plainly = _plainly(part)
    if plainly is not None:
        return plainly
    document = node.document
    library = document.library
    if node.scope or library.dynamic or "$ref" in <dict>part:
        return node.below(part, "items")
    inside, nodes, place = node.entered("items"), document.nodes, PyLong_FromVoidPtr(<void*>part)
    known = PyDict_GetItemWithError(nodes, place)
    if known != NULL:
        return (<object>known).conj
    known = PyDict_GetItemWithError(library.embedded, place)
    made = _node(document, part, node.resource if known == NULL else <object>known, inside)
    nodes[place] = made
    return made.conj


cdef _array(node, dict schema, int said):
    """Return the value of a schema of arrays."""
    items = _items(node, schema["items"]) if said & ITEMS else _ALWAYS
    least, most = schema["minItems"] if said & LEAST else 0, schema["maxItems"] if said & MOST else None
    unique = True if said & UNIQUE and schema["uniqueItems"] is True else None
    if PyObject_RichCompareBool(items, _NOTHING, Py_EQ):
        most = 0
    if most is not None:
        if most < least:
            return _new_tuple(_Value, (*_NO_SCALARS, ()))
        if most < 2:
            unique = None
    shape = _new_tuple(_ArrayShape, ((), items, least, most, (), (), unique))
    return _new_tuple(_Value, (*_NO_SCALARS[:4], (shape,), ()))


cdef _texts(list texts):
    """Return the value of some texts that a schema lists."""
    spend(len(texts) // 8)
    return _new_tuple(_Value, (*_NO_SCALARS[:3], literals(frozenset(texts)), (), ()))


cdef int _kind(int said, int types) noexcept:
    """Return the kind of plain schema that says this, and is of these types; 0: it is not plain."""
    if said & LISTED:
        return said & LISTED if said & ~TYPE in (ENUM, CONST) and (types == _STRING or not said & TYPE) else 0
    if types == _OBJECT:
        return 0 if said & ~OF_OBJECTS else OF_OBJECTS
    if types == _ARRAY:
        return 0 if said & ~OF_ARRAYS else OF_ARRAYS
    return TYPE if types and said == TYPE and not types & (_ARRAY | _OBJECT) else 0


@final
cdef class Asker:
    """Asks whether conjunctions have values.  decide: what finds out, of a conjunction that is not plainly live."""

    cdef object is_plainly_live, decide

    def __init__(self, is_plainly_live, decide):
        self.is_plainly_live, self.decide = is_plainly_live, decide

    def is_never(self, conj):
        """Return whether no value belongs to a conjunction.

        Raises: as `normalise`.
        """
        return not self.is_live(conj)

    def is_live(self, conj):
        """Return whether some value belongs to a conjunction; errors as of `is_never`."""
        cdef PyObject* known
        if not conj:
            return True
        signed = next(iter(conj))
        node = signed.node
        document = node.document
        live = document.live
        known = PyDict_GetItemWithError(live, conj)
        if known != NULL:
            return <object>known
        schema = node.schema
        if len(conj) == 1 and signed.positive and schema and self.is_plainly_live(schema, document.library.targets):
            live[conj] = True
            return True
        return self.decide(conj)

    def has_required(self, shape):
        """Return whether the shape has an object, if it is enough that what it requires has values; each is asked."""
        cdef dict named
        cdef bint found = True
        required = shape.required
        if shape.clauses or len(required) < shape.min:
            return False
        if required:
            named = dict(shape.named)
            for key in required:
                if not self.is_live(named[key]):
                    found = False
        return found


@final
cdef class Reader:
    """Reads plain schemas.  sorted_later: the plan of a node whose keywords are sorted, and paid for, but not written
    down; of_types: what knows the value of types of scalars; words: what says what the words of a dialect say.
    """

    cdef object sorted_later, of_types, words
    cdef Asker asker

    def __init__(self, Asker asker, sorted_later, of_types, words):
        self.asker, self.sorted_later, self.of_types, self.words = asker, sorted_later, of_types, words

    def value(self, node):
        """Return the value that belongs to a node that has no plan yet, its shapes perhaps empty; None: there is more
        to it.
        """
        cdef dict schema, words
        cdef int said, types, kind
        given = node.schema
        if type(given) is not dict:
            return None
        schema = <dict>given
        words = self.words(node.resource.dialect)
        said = _plain_words(schema, words)
        types = _types(schema) if said & TYPE else 0
        kind = _kind(said, types)
        if not kind:
            return None
        spend(1 + (len(schema) >> 2))
        node.plan = self.sorted_later
        if kind == OF_OBJECTS:
            return _object(node, schema, words)
        if kind == OF_ARRAYS:
            return _array(node, schema, said)
        return self.of_types(types) if kind == TYPE else _texts(schema["enum"] if kind == ENUM else [schema["const"]])

    def settled(self, conj):
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
