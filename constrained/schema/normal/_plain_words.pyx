# cython: language_level=3
"""Which schemas are plain: what their keywords say, as bits, and the kinds of what may be said together.

For `_plain_values`, which gives plain schemas their normal form.  What has an unusual form is not plain.
"""
from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next
from cpython.long cimport PyLong_AsLong
from cpython.ref cimport PyObject

from constrained.schema.sketches.scalars import ARRAY, OBJECT, TYPE_BITS

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)

cdef dict _WORDS = {
    "type": TYPE, "properties": PROPERTIES, "required": REQUIRED, "additionalProperties": ADDITIONAL, "items": ITEMS,
    "minItems": LEAST, "maxItems": MOST, "uniqueItems": UNIQUE, "enum": ENUM, "const": CONST,
    "minLength": SHORTEST, "maxLength": LONGEST, "nullable": NULLABLE, "pattern": PATTERN, "format": FORMAT,
    "minimum": LOWEST, "maximum": HIGHEST, "anyOf": ANY_OF, "oneOf": ONE_OF,
}
cdef dict _TYPE_BITS = TYPE_BITS
cdef int _OBJECT = OBJECT, _ARRAY = ARRAY, _STRING = TYPE_BITS["string"], _NULL = TYPE_BITS["null"]
cdef int _NUMBER = TYPE_BITS["number"]


def words_of(keywords):
    """Return what words say, of a dialect's keywords and `nullable`."""
    return {word: _WORDS.get(word, OTHER) for word in (*keywords, "nullable")}


cdef bint _are_names(keys, bint or_null=False) except -1:
    """Say whether keys are texts of ASCII, which all ways of writing spell."""
    for key in keys:
        if not (type(key) is str and PyUnicode_IS_ASCII(key) or or_null and key is None):
            return False
    return True


cdef int types_of(dict schema) except -1:
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
    if says & (LEAST | MOST | SHORTEST | LONGEST):
        return type(value) is int and value >= 0
    if says == UNIQUE:
        return type(value) is bool
    if says & (LOWEST | HIGHEST):
        return type(value) is int
    if says == ENUM:
        return type(value) is list and value and _are_names(<list>value, True)
    if says & (ANY_OF | ONE_OF):
        return type(value) is list
    if says & (PATTERN | FORMAT):
        return type(value) is str
    if says == CONST:
        return type(value) is str and PyUnicode_IS_ASCII(value)
    return True


cdef int plain_words(dict schema, dict words) except -1:
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


cdef int kind_of(int said, int types) noexcept:
    """Return the kind of plain schema that says this, and is of these types; 0: it is not plain."""
    cdef int nested = types & (_ARRAY | _OBJECT), more = said & ~OF_TYPES
    if said == ANY_OF or said == ONE_OF:
        return said
    if said & LISTED:
        return LISTED if (said & ~TYPE == ENUM or said & ~TYPE == CONST) and not types & ~(_STRING | _NULL) and (
            (types != 0) == ((said & TYPE) != 0)) else 0
    if said and not said & ~OF_ANYTHING:
        return OF_ANYTHING
    if nested == _OBJECT:
        return 0 if said & ~OF_OBJECTS else OF_OBJECTS
    if nested == _ARRAY:
        return 0 if said & ~OF_ARRAYS else OF_ARRAYS
    if nested or not types:
        return 0
    if not more:
        return OF_TYPES
    if not more & ~OF_BOUNDS:
        return OF_BOUNDS if types & _NUMBER else 0
    return OF_LENGTHS if types & _STRING and (more == PATTERN or more == FORMAT or not more & ~OF_LENGTHS) else 0
