# cython: language_level=3
"""Whether a schema is plain, as `plain.is_plain` says it, in one pass.

Owns: what its words say, as numbers.  Texts that are not ASCII, and whether bounds agree, are left to the functions of
`plain`.
Plain twin: `plain.looks_plain`; compared in tests/test_schema_compiled.py.
No recursion beyond the depth that it is given.
"""
from cpython.dict cimport PyDict_Contains, PyDict_GetItemWithError, PyDict_Next
from cpython.long cimport PyLong_AsLong
from cpython.ref cimport PyObject
from cython cimport final

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)

cdef enum:
    TYPE = 1
    PROPERTIES = 2
    REQUIRED = 3
    ENUM = 4
    ITEMS = 5
    OTHER_KEYS = 6
    NOTE = 7
    NUMBER = 8

cdef dict _SAYS = {
    "type": TYPE, "properties": PROPERTIES, "required": REQUIRED, "enum": ENUM, "items": ITEMS,
    "additionalProperties": OTHER_KEYS,
}


@final
cdef class PlainSight:
    """A callable: schema, depth → whether it is plain.

    is_spelled: of a text.  bounds_agree: of a schema whose bounds are plain by themselves.
    """

    cdef dict words
    cdef frozenset types
    cdef object is_spelled, bounds_agree
    cdef int deepest

    def __init__(self, types, notes, numbers, int deepest, is_spelled, bounds_agree):
        self.words = {**dict.fromkeys(notes, NOTE), **dict.fromkeys(numbers, NUMBER), **_SAYS}
        self.types, self.deepest, self.is_spelled, self.bounds_agree = types, deepest, is_spelled, bounds_agree

    def __call__(self, schema):
        return self.look(schema, self.deepest)

    cdef bint look(self, schema, int depth) except -1:
        cdef Py_ssize_t position = 0
        cdef PyObject* word
        cdef PyObject* value
        cdef PyObject* known
        cdef bint bounded = False
        cdef int says
        if type(schema) is not dict or not depth:
            return False
        while PyDict_Next(schema, &position, &word, &value):
            known = PyDict_GetItemWithError(self.words, <object>word)
            if known == NULL:
                return False
            says = PyLong_AsLong(<object>known)
            if says == TYPE:
                if not self.is_type(<object>value):
                    return False
            elif says == PROPERTIES:
                if not self.are_properties(<object>value, depth):
                    return False
            elif says == REQUIRED:
                if not self.are_required(<object>value, schema):
                    return False
            elif says == ENUM:
                if not self.are_members(<object>value, schema):
                    return False
            elif says == ITEMS:
                if not self.look(<object>value, depth - 1):
                    return False
            elif says == OTHER_KEYS:
                if <object>value is not False:
                    return False
            elif says == NUMBER:
                if not _is_bound(<object>value):
                    return False
                bounded = True
        return not bounded or self.bounds_agree(schema)

    cdef bint is_type(self, value) except -1:
        if type(value) is str:
            return value in self.types
        if type(value) is not list or not value:
            return False
        for name in <list>value:
            if type(name) is not str or name not in self.types:
                return False
        return True

    cdef bint are_properties(self, value, int depth) except -1:
        cdef Py_ssize_t position = 0
        cdef PyObject* name
        cdef PyObject* part
        if type(value) is not dict:
            return False
        while PyDict_Next(value, &position, &name, &part):
            if type(<object>name) is not str or not self.look(<object>part, depth - 1):
                return False
        return True

    cdef bint are_required(self, value, dict schema) except -1:
        cdef PyObject* properties
        if type(value) is not list or not _has_type(schema, "object"):
            return False
        properties = PyDict_GetItemWithError(schema, "properties")
        if properties == NULL or type(<object>properties) is not dict:
            return properties == NULL and not value
        for name in <list>value:
            if type(name) is not str or not PyDict_Contains(<object>properties, name) or not self.has_spelling(name):
                return False
        return True

    cdef bint are_members(self, value, dict schema) except -1:
        if type(value) is not list or not value:
            return False
        if PyDict_GetItemWithError(schema, "type") != NULL and not _has_type(schema, "string"):
            return False
        for member in <list>value:
            if type(member) is not str or not self.has_spelling(member):
                return False
        return True

    cdef bint has_spelling(self, text) except -1:
        return PyUnicode_IS_ASCII(text) or self.is_spelled(text)


cdef bint _has_type(dict schema, str name) except -1:
    cdef PyObject* known = PyDict_GetItemWithError(schema, "type")
    return known != NULL and type(<object>known) is str and <object>known == name


cdef bint _is_bound(value) except -1:
    return type(value) is int and 0 <= value < (<object>1 << 31)
