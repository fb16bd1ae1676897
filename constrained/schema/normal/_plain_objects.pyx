# cython: language_level=3
"""The normal form of objects of which a schema says what their keys hold, which are required, and no more: in one pass.

Most objects are such.  They are read as `keywords.by_type` sorts them and `object_shapes` decides their keys: the same
nodes in the same order, and the same units of work.  References and subschemas of other keys go to `Node.below`.

    {"type": "object", "properties": …, "required": …, "additionalProperties": …}  ──►  Value(objects=(ObjectShape(…),))

Also here: `is_never` of what is known or plainly live, which is asked of every key that an object has.

Owns: nothing.  Borrows: the tables of documents, in which nodes and answers are entered.
Plain twin: `normalise.plain_value` and `normalise.PlainAsker`; compared in tests/test_schema_compiled.py.
"""
from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next
from cpython.long cimport PyLong_AsLong, PyLong_FromVoidPtr
from cpython.object cimport Py_EQ, PyObject_RichCompareBool
from cpython.ref cimport PyObject
from cython cimport final

from constrained.regex import ANY_TEXT, NEVER
from constrained.schema.reading.nodes import NOTHING, Node, serials
from constrained.schema.sketches.scalars import NO_SCALARS
from constrained.schema.values import ALWAYS, ObjectShape, SignedNode, Value
from constrained.work import spend

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)

cdef enum Word:
    # what a keyword says
    OTHER          # of which nothing is known here
    TYPE
    PROPERTIES
    REQUIRED
    ADDITIONAL

cdef dict _WORDS = {"type": TYPE, "properties": PROPERTIES, "required": REQUIRED, "additionalProperties": ADDITIONAL}
cdef object _ALWAYS = ALWAYS, _NOTHING = NOTHING, _Node = Node, _SignedNode = SignedNode, _serials = serials
cdef object _Shape = ObjectShape, _Value = Value, _new_tuple = tuple.__new__, _new = object.__new__
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


cdef bint _is_plain(dict schema, dict words) except -1:
    """Say whether a schema is of objects, and has no keywords but those of `_WORDS`."""
    cdef Py_ssize_t position = 0
    cdef PyObject* word
    cdef PyObject* value
    cdef PyObject* known = PyDict_GetItemWithError(schema, "type")
    cdef int says
    if known == NULL or type(<object>known) is not str or <object>known != "object":
        return False
    while PyDict_Next(schema, &position, &word, &value):
        known = PyDict_GetItemWithError(words, <object>word)
        if known == NULL:
            continue
        says = PyLong_AsLong(<object>known)
        if says == OTHER:
            return False
        if says == PROPERTIES and not (type(<object>value) is dict and _are_names(<dict><object>value)):
            return False
        if says == REQUIRED and not (type(<object>value) is list and _are_names(<list><object>value)):
            return False
    return True


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


def plain_object(node, dict words, sorted_later):
    """Return the value that belongs to a node that has no plan yet; None: there is more to it.  words: see `words_of`;
    sorted_later: the plan of a node whose keywords are sorted, and paid for, but not written down.
    """
    cdef Py_ssize_t position = 0
    cdef PyObject* word
    cdef PyObject* value
    cdef PyObject* known
    cdef dict schema, named = {}
    cdef list required = None
    cdef bint bounded = False
    cdef int says
    others = _ALWAYS
    given = node.schema
    if type(given) is not dict or not _is_plain(<dict>given, words):
        return None
    schema = <dict>given
    spend(1 + (len(schema) >> 2))
    node.plan = sorted_later
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
