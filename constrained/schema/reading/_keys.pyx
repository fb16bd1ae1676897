# cython: language_level=3
"""What a small schema says, written as a key in one pass, and the schema without annotations: leaves of `interning`.

Owns: the forms in which the values of keywords are written, dialect by dialect.
Plain twin: `interning.PlainWriter` and `interning.plain_leaf`; compared in tests/test_schema_compiled.py.
Each step inside writes to the key first, which ends when it is long; so nesting is bounded.
"""
from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next
from cpython.list cimport PyList_Append
from cpython.long cimport PyLong_AsLong, PyLong_FromVoidPtr
from cpython.ref cimport PyObject
from cython cimport final

from decimal import Decimal

cdef enum Form:
    # how the value of a keyword is written, as the functions of `interning` do it, in their order
    REFUSED
    AS_IS
    TYPED
    NAMES
    ENUM
    CONST
    SCHEMA
    PROPERTIES
    SCALARS

cdef enum:
    LARGEST = 64        # as in `interning`: entries of a key,
    LONGEST_LIST = 64   # members of an enum, and required properties

cdef frozenset _SCALAR_TYPES = frozenset(("string", "number", "integer", "boolean", "null"))
cdef object _decimal = Decimal


cdef inline bint _is_atom(object value) except -1:
    kind = type(value)
    return kind is str or kind is int or kind is float or kind is bool or value is None or kind is _decimal


cdef inline bint _is_scalar(object schema) except -1:
    cdef PyObject* kind
    if type(schema) is not dict:
        return False
    kind = PyDict_GetItemWithError(schema, "type")
    return kind != NULL and type(<object>kind) is str and <object>kind in _SCALAR_TYPES


@final
cdef class KeyWriter:
    """Writes the schemas of one dialect.  forms: functions of `interning` by keyword, None for keywords of no leaf;
    functions: all of them, as `Form` lists them."""

    cdef dict forms

    def __init__(self, forms, functions):
        numbers = {function: number for number, function in enumerate(functions, AS_IS)}
        self.forms = {word: REFUSED if write is None else numbers[write] for word, write in forms.items()}

    def key(self, schema):
        """Return what a schema says as a key; None: it is no leaf."""
        cdef list key = []
        return tuple(key) if self.write(schema, key) else None

    def bare(self, schema):
        """Return a leaf without its annotations, which may be long."""
        return self.without_annotations(schema)

    cdef without_annotations(self, schema):
        """As `bare`.  Only of what was written: it is nested no deeper than a key is long."""
        cdef Py_ssize_t position = 0
        cdef PyObject* word
        cdef PyObject* value
        cdef PyObject* known
        cdef dict found
        cdef int form
        if type(schema) is not dict:
            return schema
        found = {}
        while PyDict_Next(schema, &position, &word, &value):
            known = PyDict_GetItemWithError(self.forms, <object>word)
            if known == NULL:
                continue
            form = PyLong_AsLong(<object>known)
            part = <object>value
            if form == SCHEMA:
                part = self.without_annotations(part)
            elif form == PROPERTIES:
                part = {name: self.without_annotations(inner) for name, inner in (<dict>part).items()}
            elif form == SCALARS:
                part = [self.without_annotations(inner) for inner in <list>part]
            found[<object>word] = part
        return found

    cdef bint write(self, schema, list key) except -1:
        cdef Py_ssize_t position = 0
        cdef PyObject* word
        cdef PyObject* value
        cdef PyObject* known
        cdef int form
        if type(schema) is not dict:
            PyList_Append(key, schema)
            return True
        while PyDict_Next(schema, &position, &word, &value):
            known = PyDict_GetItemWithError(self.forms, <object>word)
            if known == NULL:
                continue
            form = PyLong_AsLong(<object>known)
            if form == REFUSED:
                return False
            PyList_Append(key, <object>word)
            if type(<object>value) is str:
                PyList_Append(key, <object>value)
            elif len(key) > LARGEST or not self.write_value(form, <object>value, key):
                return False
        PyList_Append(key, None)
        return len(key) <= LARGEST

    cdef bint write_value(self, int form, value, list key) except -1:
        cdef Py_ssize_t position = 0
        cdef PyObject* word
        cdef PyObject* part
        if form == AS_IS:
            PyList_Append(key, value)
            return True
        if form == TYPED:
            PyList_Append(key, (type(value), value))
            return True
        if form == NAMES:
            PyList_Append(key, tuple(value))
            return len(value) <= LONGEST_LIST
        if form == ENUM:
            return _write_enum(value, key)
        if form == CONST:
            if not _is_atom(value):
                return False
            PyList_Append(key, (type(value), value))
            return True
        if form == SCHEMA:
            return type(value) is not list and self.write(value, key)
        PyList_Append(key, len(value))
        if form == PROPERTIES:
            if len(value) > LARGEST >> 1 or type(value) is not dict:
                return False
            while PyDict_Next(<dict>value, &position, &word, &part):
                PyList_Append(key, <object>word)
                if not self.write(<object>part, key):
                    return False
            return True
        for schema in value:
            if not _is_scalar(schema) or not self.write(schema, key):
                return False
        return True


@final
cdef class LeafFinder:
    """Finds the leaves that stand for conjunctions.  writers: by the ids of dialects; names: those of `interning`."""

    cdef dict writers, names

    def __init__(self, writers, names):
        self.writers, self.names = writers, names

    def leaf(self, conj):
        """As `interning.plain_leaf`."""
        cdef PyObject* known
        cdef list key
        if len(conj) != 1:
            return None if conj else conj
        signed = next(iter(conj))
        node = signed.node
        dialect, schema = node.resource.dialect, node.schema
        known = PyDict_GetItemWithError(self.writers, PyLong_FromVoidPtr(<void*>dialect))
        if not (signed.positive and schema) or known == NULL:       # unions have no schema
            return None
        key = []
        if not (<KeyWriter>known).write(schema, key):
            return None
        written, leaves = tuple(key), self.leaves_of(dialect, node.document.asserted_formats)
        known = PyDict_GetItemWithError(leaves.known, written)
        return leaves.add(written, schema) if known == NULL else <object>known

    cdef leaves_of(self, dialect, formats):
        """As `interning._leaves_of`.  PERF: called from here, that takes half a microsecond."""
        cdef PyObject* known = PyDict_GetItemWithError(
            self.names["_commons"], (PyLong_FromVoidPtr(<void*>dialect), formats))
        if known == NULL or len((<object>known).known) >= <int>self.names["MOST_LEAVES"]:
            return self.names["_leaves_of"](dialect, formats)
        return <object>known


cdef bint _write_enum(value, list key) except -1:
    cdef bint texts = True
    if len(value) > LONGEST_LIST:
        return False
    for part in value:
        if not _is_atom(part):
            return False
        texts = texts and type(part) is str
    PyList_Append(key, tuple(value) if texts else tuple([(type(part), part) for part in value]))
    return True
