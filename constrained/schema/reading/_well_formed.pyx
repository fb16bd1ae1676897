# cython: language_level=3
"""The walk of `check` over the subschemas of a document in one pass, as most of their keywords are plainly right.

Owns: nothing.  What is not plainly right, or says more than its form does (patterns, identifiers, references, large
numbers), goes to the functions of `check`, keyword by keyword and in the order in which its own walk comes to it; so
the errors are theirs, and what they collect has the same order.
Plain twin: `check._survey_plainly`; compared in tests/test_schema_compiled.py.
"""
from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next
from cpython.list cimport PyList_Append
from cpython.long cimport PyLong_AsLong, PyLong_AsLongLongAndOverflow, PyLong_FromVoidPtr
from cpython.ref cimport PyObject
from cython cimport final
from constrained._work cimport spent

from constrained.schema.reading.keywords import NUMERIC, TYPES, Holds, OfKind
from constrained.schema.reading.resources import Reference
from constrained.schema.reading.size_estimates import MANY_TEXTS
from constrained.schema.strings.formats import INEXACT, KNOWN

cdef enum Form:
    # what the value of a keyword must be, to be plainly right
    OTHER          # `check` is asked in any case
    ANNOTATION     # anything: it is no keyword of the dialect
    TEXT
    BOOLEAN
    FALSE
    TYPE
    TEXTS
    FORMAT         # one whose language is exact
    COUNT
    NUMBER
    ATOM           # text, boolean, null or a number that is not large
    ATOMS
    SCHEMA         # from here on, something with subschemas
    SCHEMAS
    SCHEMA_OR_LIST
    NAMED
    # and whether the keyword is a name, a reference or a combination
    NOTED = 32
    NOTED_IF_MANY = 64
    REFERRING = 128

cdef enum:
    FORMS = 31             # the bits of a form
    PORTION = 200          # units that are spent at once, as in `check`
    MOST_COUNTED = 2147483647  # as in `check`

cdef int MANY = MANY_TEXTS
cdef frozenset _TYPES = frozenset(TYPES)
cdef frozenset _EXACT = frozenset(KNOWN) - frozenset(INEXACT)
cdef dict _BY_NAME = {
    "type": TYPE, "required": TEXTS, "enum": ATOMS, "const": ATOM, "format": FORMAT, "uniqueItems": FALSE,
}
cdef dict _NOTES = {"anyOf": NOTED_IF_MANY, "$ref": REFERRING}
cdef tuple _BESIDE_REFERENCES = ("$ref", "definitions")  # what counts where references stand alone, as in `check`
cdef object _Reference = Reference, _new_tuple = tuple.__new__
cdef dict _BY_KINDS = {
    frozenset((str,)): TEXT, frozenset((bool,)): BOOLEAN, frozenset(NUMERIC): NUMBER, frozenset((dict, bool)): SCHEMA,
    frozenset((dict, bool, list)): SCHEMA_OR_LIST, frozenset((dict,)): NAMED,
}


def forms_of(rules, annotations, looked_at, noted):
    """Return what the values of words must be: those with rules, those that are known to be annotations, and those that
    are noted, with a rule or without."""
    forms = dict.fromkeys(annotations, ANNOTATION)
    for word, rule in rules.items():
        kinds = rule.fits.kinds if isinstance(rule.fits, OfKind) else None
        if word in _BY_NAME:
            form = _BY_NAME[word]
        elif rule.counts:
            form = COUNT
        elif rule.holds == Holds.LIST:
            form = SCHEMAS
        elif word in looked_at and kinds != frozenset(NUMERIC):
            form = OTHER
        else:
            form = _BY_KINDS.get(kinds, OTHER)
        forms[word] = form
    for word in noted:
        forms[word] = forms.get(word, OTHER) | (_NOTES.get(word, NOTED) if word in rules else NOTED)
    return forms


cdef inline bint _is_small(object value) except -1:
    """Say whether an integer has less than 64 bits."""
    cdef int overflow = 0
    PyLong_AsLongLongAndOverflow(value, &overflow)
    return overflow == 0


cdef inline bint _is_atom(object value) except -1:
    kind = type(value)
    return kind is str or kind is bool or value is None or kind is float or kind is int and _is_small(value)


cdef bint _are_texts(list values, frozenset among) except -1:
    """Say whether values are texts, on request of some that are known."""
    for value in values:
        if type(value) is not str or among is not None and value not in among:
            return False
    return True


cdef bint _are_atoms(list values) except -1:
    for value in values:
        if not _is_atom(value):
            return False
    return True


cdef bint _fits(int form, object value) except -1:
    """Say whether a value is plainly right; False says nothing."""
    cdef int overflow = 0
    cdef long long count
    kind = type(value)
    if form == ANNOTATION:
        return True
    if form == TEXT:
        return kind is str
    if form == BOOLEAN:
        return kind is bool
    if form == FALSE:
        return value is False
    if form == TYPE:
        if kind is list:
            return len(<list>value) > 0 and _are_texts(<list>value, _TYPES)
        return kind is str and value in _TYPES
    if form == TEXTS:
        return kind is list and _are_texts(<list>value, None)
    if form == FORMAT:
        return kind is str and value in _EXACT
    if form == COUNT:
        if kind is not int:
            return False
        count = PyLong_AsLongLongAndOverflow(value, &overflow)
        return overflow == 0 and 0 <= count < MOST_COUNTED
    if form == NUMBER:
        return kind is float or kind is int and _is_small(value)
    if form == ATOM:
        return _is_atom(value)
    if form == ATOMS:
        return kind is list and _are_atoms(<list>value)
    if form == SCHEMA:
        return kind is dict or kind is bool
    if form == SCHEMAS:
        return kind is list and len(<list>value) > 0
    if form == SCHEMA_OR_LIST:
        return kind is dict or kind is bool or kind is list
    return form == NAMED and kind is dict


cdef int _enter(list todo, object value, resource, where, keyword, holder) except -1:
    """Put the subschemas in a value that fits onto the stack, with their place: a keyword's and a step behind it."""
    cdef Py_ssize_t position = 0
    cdef PyObject* name
    cdef PyObject* part
    here = where, keyword
    if type(value) is list:
        for index, schema in enumerate(<list>value):
            PyList_Append(todo, (schema, resource, here, index, holder))
    else:
        while PyDict_Next(<dict>value, &position, &name, &part):
            PyList_Append(todo, (<object>part, resource, here, <object>name, holder))
    return 0


cdef int _noted(dict schema, dict forms) except -1:
    """Return whether a schema has a name or a combination that counts (`NOTED`), or refers to another (`REFERRING`)."""
    cdef Py_ssize_t position = 0
    cdef PyObject* keyword
    cdef PyObject* value
    cdef PyObject* known
    cdef int form, found = 0
    while PyDict_Next(schema, &position, &keyword, &value):
        known = PyDict_GetItemWithError(forms, <object>keyword)
        if known != NULL:
            form = PyLong_AsLong(<object>known)
            found |= form & (NOTED | REFERRING)
            if form & NOTED_IF_MANY and type(<object>value) is list and len(<list><object>value) >= MANY:
                found |= NOTED
    return found


@final
cdef class Walk:
    """One walk: what is collected, and the functions of `check` that look at what is not plain."""

    cdef object library, checked, entered, forms_for, refuse, resource
    cdef dict outer, forms  # of the resource
    cdef list todo, further, unknown, references

    def __init__(self, library, functions):
        self.library = library
        self.forms_for, self.entered, self.checked, self.refuse = functions
        self.outer, self.further, self.unknown = library.outer, library.further_outer, library.unknown
        self.references, self.todo = library.references, []

    cdef int walk(self, root, resource, where) except -1:
        cdef tuple frame
        cdef long work = 0
        PyList_Append(self.todo, (root, resource, where, None, 0))
        while self.todo:
            frame = <tuple>self.todo.pop()
            part, where, holder = frame[0], frame[2], frame[4]
            if type(part) is bool:
                continue
            if frame[3] is not None:
                where = where, frame[3]
            if type(part) is not dict:
                self.refuse(where)
            name = PyLong_FromVoidPtr(<void*>part)
            if name in self.outer:
                PyList_Append(self.further, (name, holder))
                continue
            self.outer[name] = holder
            work += 5
            if work > PORTION:
                spent(work, None)
                work = 0
            self.schema(<dict>part, frame[1], where, name)
        spent(work, None)
        return 0

    cdef int enter(self, resource) except -1:
        """Go on among the keywords of a resource."""
        if resource is not self.resource:
            self.forms, self.resource = self.forms_for(resource.dialect), resource
        return 0

    cdef int schema(self, dict schema, resource, where, name) except -1:
        """Check a schema of this name, and put the subschemas in it onto the stack."""
        cdef Py_ssize_t position = 0
        cdef PyObject* word
        cdef PyObject* value
        cdef int noted
        self.enter(resource)
        noted = _noted(schema, self.forms)
        if noted & NOTED:
            resource, entries = self.entered(self.library, schema, resource, where)
            self.enter(resource)
            if type(entries) is list:
                for keyword, given in <list>entries:
                    self.keyword(keyword, given, schema, where, name)
                return 0
        elif noted:
            self.references.append(_new_tuple(_Reference, (schema, "$ref", resource, where)))
            if resource.dialect.reference_stands_alone:
                for keyword in _BESIDE_REFERENCES:
                    if keyword in schema:
                        self.keyword(keyword, schema[keyword], schema, where, name)
                return 0
        while PyDict_Next(schema, &position, &word, &value):
            self.keyword(<object>word, <object>value, schema, where, name)
        return 0

    cdef int keyword(self, word, value, dict schema, where, holder) except -1:
        """Check a keyword, and put the subschemas in its value onto the stack."""
        cdef PyObject* known = PyDict_GetItemWithError(self.forms, word)
        cdef int form
        if known == NULL:
            PyList_Append(self.unknown, (word, where, self.resource.dialect))
            return 0
        form = PyLong_AsLong(<object>known) & FORMS
        if not _fits(form, value):
            for part, base, at, outside in self.checked(self.library, schema, word, value, self.resource, where):
                PyList_Append(self.todo, (part, base, at, None, outside))
        elif form >= SCHEMA:
            if form == NAMED or type(value) is list:
                _enter(self.todo, value, self.resource, where, word, holder)
            else:
                PyList_Append(self.todo, (value, self.resource, where, word, holder))
        return 0


def survey(library, root, resource, where, functions):
    """As `check._survey_plainly`.

    functions: what gives the forms of a dialect, notes a schema's names and references, checks one keyword, and refuses
    what is no schema.
    """
    cdef Walk walk = Walk(library, functions)
    walk.walk(root, resource, where)
