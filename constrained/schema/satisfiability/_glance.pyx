# cython: language_level=3
"""A look at the keywords of a schema for a value, as `quick` does it, in one pass over most schemas.

Owns: what the words of schemas ask for, as flags.  Patterns, constants that are no texts, alternatives and whatever
else stands beside something unusual go to the functions of `quick`.
Plain twin: `quick.looks_live`; compared in tests/test_schema_compiled.py.
No recursion beyond `deepest`, which each step into a schema comes nearer to.
"""
from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next
from cpython.long cimport PyLong_AsLong, PyLong_FromVoidPtr
from cpython.ref cimport PyObject
from cython cimport final

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)

cdef enum:
    # what a word says: one of the demands …
    REQUIRED = 1
    MIN_ITEMS = 2
    ENUM = 3
    REFERENCE = 4
    BOUND = 5
    MIN_LENGTH = 6
    OTHER = 7
    DEMAND = 7          # the bits of a demand
    # … or that it may refuse what another one demands
    OF_KEYS = 8
    OF_ITEMS = 16
    OF_OTHER_KEYS = 32
    FORMAT = 64
    MAX_LENGTH = 128

cdef dict _DEMANDS = {
    "required": REQUIRED, "minItems": MIN_ITEMS, "enum": ENUM, "$ref": REFERENCE, "minLength": MIN_LENGTH,
}


@final
cdef class Glance:
    """A callable: schema, targets of references, depth → whether a value is seen; False says nothing.

    others: what looks at a schema with demands that are not plain; room: characters in which each format has a text.
    """

    def __init__(self, others, int deepest, *, long room, demanding, bounds, keys, items, other_keys):
        self.others, self.deepest, self.room = others, deepest, room
        self.words = {word: BOUND if word in bounds else _DEMANDS.get(word, OTHER) for word in demanding}
        for words, flag in ((keys, OF_KEYS), (items, OF_ITEMS), (other_keys, OF_OTHER_KEYS)):
            for word in words:
                self.words[word] = self.words.get(word, 0) | flag
        self.words["format"], self.words["maxLength"] = FORMAT, MAX_LENGTH

    def __call__(self, schema, targets, int depth=0):
        return self.look(schema, targets, depth)

    cdef bint look(self, schema, targets, int depth) except -1:
        cdef Py_ssize_t position = 0
        cdef PyObject* word
        cdef PyObject* value
        cdef PyObject* known
        cdef PyObject* demanded = NULL
        cdef int flag, flags = 0, demand = 0, demands = 0
        if type(schema) is not dict:
            return schema is True
        while PyDict_Next(schema, &position, &word, &value):
            known = PyDict_GetItemWithError(self.words, <object>word)
            if known != NULL:
                flag = PyLong_AsLong(<object>known)
                flags |= flag
                if flag & DEMAND:
                    demand, demanded = flag & DEMAND, value
                    demands += 1
        if not demands:
            if flags & FORMAT and flags & MAX_LENGTH and not self.has_room((<dict>schema)["maxLength"]):
                return False
            return (<dict>schema).get("type") != []
        if depth >= self.deepest:
            return False
        known = PyDict_GetItemWithError(schema, "type")
        if demands == 1 and (known == NULL or type(<object>known) is str):
            given = <object>demanded
            kind = None if known == NULL else <object>known
            if demand == REQUIRED:
                if kind == "object" and type(given) is list and not flags & OF_KEYS:
                    return self.has_keys(schema, given, not flags & OF_OTHER_KEYS, targets, depth)
            elif demand == MIN_ITEMS:
                if kind == "array" and not flags & OF_ITEMS:
                    return self.look((<dict>schema).get("items", True), targets, depth + 1)
            elif demand == ENUM:
                if (kind is None or kind == "string") and not flags & (FORMAT | MAX_LENGTH) and _has_text(given):
                    return True
            elif demand == REFERENCE:
                if len(<dict>schema) == 1:
                    target = targets.get((PyLong_FromVoidPtr(<void*>schema), "$ref"))
                    if target is None or target.dynamic is not None:
                        return False
                    return self.look(target.schema, targets, depth + 1)
            elif demand == BOUND:
                return kind == "integer" or kind == "number"
            elif demand == MIN_LENGTH and not flags & (MAX_LENGTH | FORMAT):
                return kind == "string"
        return self.others(schema, targets, depth)

    cdef bint has_room(self, most) except -1:
        """Say whether each format has a text of one character to so many."""
        return type(most) is int and most >= self.room

    cdef bint has_keys(self, dict schema, list required, bint is_open, targets, int depth) except -1:
        """Say whether the keys that an object requires have values."""
        cdef PyObject* known
        cdef dict properties = None
        known = PyDict_GetItemWithError(schema, "properties")
        if known != NULL:
            if type(<object>known) is not dict:
                return self.others(schema, targets, depth)
            properties = <dict>known
        for key in required:
            if type(key) is not str or not PyUnicode_IS_ASCII(key):
                return self.others(schema, targets, depth)
            known = NULL if properties is None else PyDict_GetItemWithError(properties, key)
            if not (is_open if known == NULL else self.look(<object>known, targets, depth + 1)):
                return False
        return True


cdef bint _has_text(values) except -1:
    """Say whether there is a text that can be spelled, as one of ASCII can."""
    if type(values) is list:
        for value in <list>values:
            if type(value) is str and PyUnicode_IS_ASCII(value):
                return True
    return False
