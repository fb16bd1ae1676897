# cython: language_level=3
"""Objects whose keys are in sight, of many tools at once: what a kernel asks of `beginnings.UnreadObject`.

Owns: the names of plain schemas.  Borrows: what `beginnings.Parts` has made of them, which it adds to.
Plain twins: `UnreadObject.plain_table` and `Parts.state`, which names schemas by their content; compared in
tests/test_waiting_arguments.py.
"""
from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next
from cpython.ref cimport PyObject
from cython cimport final

from constrained.machine import ObjectTable
from constrained.schema.key_masks import mask_of

cdef enum:
    MOST_BITS = 62      # keys whose mask is one number of C
    DEEPEST = 8         # of schemas that have a name
    OBJECT = 0          # what a part of a name was
    ARRAY = 1

cdef object _new_tuple = tuple.__new__, _Table = ObjectTable


@final
cdef class Values:
    """A callable: number of a key → what reads its value."""

    cdef dict properties, made
    cdef tuple names
    cdef frozenset notes
    cdef object state

    def __call__(self, Py_ssize_t which):
        cdef PyObject* known
        schema = self.properties[self.names[which]]
        name = schema_name(schema, self.notes)
        if name is None:
            return self.state(schema)
        known = PyDict_GetItemWithError(self.made, name)
        if known != NULL:
            return <object>known
        made = self.made[name] = self.state(schema)
        return made


def table_in_sight(dict properties, required, bint ordered, quoting, tuple punctuation, parts):
    """Return the facts about an object that has these keys and no others."""
    cdef list names = sorted(properties), order = None
    cdef Py_ssize_t at, count = len(names)
    cdef dict index = {}
    cdef unsigned long long bits = 0
    cdef Values values = Values.__new__(Values)
    for at in range(count):
        index[names[at]] = at
    needed, usable = 0, (<object>1 << count) - 1
    if required and count > MOST_BITS:
        needed = mask_of([index[name] for name in required], count)
    elif required:
        for name in required:
            at = index[name]
            bits |= <unsigned long long>1 << at
        needed = bits
    if ordered:
        order = [index[name] for name in properties]
    values.properties, values.names, values.made = properties, tuple(names), parts.made
    values.notes, values.state = parts.notes, parts.state
    return _new_tuple(_Table, (
        values.names, needed, usable, frozenset(names), (), values, (), 0, None, quoting, *punctuation, order, (),
    ))


cpdef schema_name(schema, frozenset notes):
    """Return a name of a schema without its notes, equal only for equal schemas of equal types in equal order; None: it
    holds what has no such name."""
    return part_name(<dict>schema, notes, DEEPEST) if type(schema) is dict else None


cdef tuple part_name(dict schema, frozenset notes, int depth):
    cdef Py_ssize_t position = 0
    cdef PyObject* word
    cdef PyObject* value
    cdef list found = [OBJECT]
    if not depth:
        return None
    while PyDict_Next(schema, &position, &word, &value):
        if notes is not None and <object>word in notes:
            continue
        part = <object>value
        if type(part) is dict:
            part = part_name(<dict>part, None, depth - 1)
        elif type(part) is list:
            part = list_name(<list>part)
        elif type(part) is not str and type(part) is not int:
            return None
        if part is None or type(<object>word) is not str:
            return None
        found.append(<object>word)
        found.append(part)
    return tuple(found)


cdef tuple list_name(list texts):
    for text in texts:
        if type(text) is not str:
            return None
    return (ARRAY, *texts)
