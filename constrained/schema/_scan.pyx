"""Compiled passes that read what stands in a schema, keyword by keyword.

    copies      of plain JSON
    nodes       of subschemas, as the passes below and `_values` follow them
    glances     whether a value is surely there; whether a schema is plain
    objects     those whose keys are in sight

Each has a plain twin in Python, named at its head, that runs where there is no compiler; tests/test_schema_compiled.py,
test_waiting_arguments.py compare them.  Units of work are the same.
"""
from cpython.dict cimport PyDict_Contains, PyDict_Copy, PyDict_GetItemWithError, PyDict_Next, PyDict_SetItem
from cpython.long cimport PyLong_AsLong, PyLong_FromVoidPtr
from cpython.ref cimport PyObject
from cython cimport final
from libc.math cimport isfinite
from constrained._work cimport spent

from constrained.machine import ObjectTable
from constrained.schema.key_masks import mask_of
from constrained.schema.reading.document import Node, NOTHING, serials
from constrained.schema.normal.scalars import ARRAY, OBJECT, TYPE_BITS
from constrained.schema.values import ALWAYS, SignedNode


# ======================================================================================================================
# Nodes of subschemas, for compiled passes: `Node.below`, `Node.each_below` and `Document.follow` where they are plain.
#
# The same nodes in the same order, and the same units of work.  Dynamic scopes, chains of references and references
# with neighbours that count go to the methods of `reading.document`, which are the plain twin; compared in
# tests/test_schema_compiled.py through the passes that read schemas with these.
#
# Owns: nothing.  Borrows: the tables of documents, in which nodes and what they refer to are entered.
# ======================================================================================================================

cdef object _ALWAYS = ALWAYS, _NOTHING = NOTHING, _Node = Node, _SignedNode = SignedNode, _serials = serials
cdef object _new = object.__new__


cdef extern from "Python.h":
    ctypedef int (*descrsetfunc)(object descriptor, object owner, object value) except -1
    ctypedef struct PyTypeObject:
        descrsetfunc tp_descr_set
    PyTypeObject* Py_TYPE(object thing)


# PERF: what sets the slots of nodes; to find each by its name takes twice as long, and an object has dozens of nodes
cdef object _node = SignedNode.node, _positive = SignedNode.positive
cdef object _document = Node.document, _schema = Node.schema, _resource = Node.resource, _scope = Node.scope
cdef object _where = Node.where, _inside = Node.inside, _signed = Node.positive, _conj = Node.conj, _plan = Node.plan
cdef object _serial = Node.serial
cdef descrsetfunc _set = Py_TYPE(_node).tp_descr_set


cdef object new_node(document, schema, resource, where):
    """Return a new node, as `Node(document, schema, resource, (), where)`."""
    node = _new(_Node)
    positive = _new(_SignedNode)
    _set(_node, positive, node)
    _set(_positive, positive, True)
    _set(_document, node, document)
    _set(_schema, node, schema)
    _set(_resource, node, resource)
    _set(_scope, node, ())
    _set(_where, node, where)
    _set(_inside, node, None)
    _set(_plan, node, None)
    _set(_signed, node, positive)
    _set(_conj, node, frozenset((positive,)))
    _set(_serial, node, next(_serials))
    return node


cdef object plainly(schema):
    """Return the conjunction of a schema that says yes or no to everything; None: it says more."""
    if schema is True or type(schema) is dict and not <dict>schema:
        return _ALWAYS
    return _NOTHING if schema is False else None


cdef _entered(node, str keyword):
    """Return the place of a keyword's value, as `Node.entered`."""
    inside = node.inside
    if inside is None or (<tuple>inside)[1] is not keyword:
        inside = node.inside = (node.where, keyword)
    return inside


cdef _node_of(document, dict nodes, part, resource, where):
    """Return the node of a subschema, as `Document.node` outside of dynamic scopes."""
    place = PyLong_FromVoidPtr(<void*>part)
    cdef PyObject* known = PyDict_GetItemWithError(nodes, place)
    if known != NULL:
        return <object>known
    made = new_node(document, part, resource, where)
    nodes[place] = made
    return made


cdef bint _counts_only_reference(dict schema, rules) except -1:
    """Say whether no keyword beside a reference counts."""
    for word in schema:
        if word != "$ref" and word in rules:
            return False
    return True


cdef _followed(document, dict nodes, node):
    """Return what a node refers to that has a reference, as `Document.follow`."""
    cdef dict followed = document.followed, schema = node.schema
    cdef PyObject* known = PyDict_GetItemWithError(followed, node)
    if known != NULL:
        return <object>known
    dialect = node.resource.dialect
    rules = dialect.rules
    if "$ref" in rules and (dialect.reference_stands_alone or _counts_only_reference(schema, rules)):
        target = document.library.targets.get((PyLong_FromVoidPtr(<void*>schema), "$ref"))
        if target is not None and target.dynamic is None:
            referent = target.schema
            if type(referent) is dict and <dict>referent and "$ref" not in <dict>referent:
                spent(1, None)
                found = _node_of(document, nodes, referent, target.resource, target.where).conj
                followed[node] = found
                return found
    return document.follow(node)


cdef _conj_of(document, dict nodes, dict embedded, dict part, resource, where):
    """Return what a subschema that says something means."""
    cdef PyObject* known = PyDict_GetItemWithError(nodes, PyLong_FromVoidPtr(<void*>part))
    if known != NULL:
        node = <object>known
    else:
        known = PyDict_GetItemWithError(embedded, PyLong_FromVoidPtr(<void*>part))
        node = _node_of(document, nodes, part, resource if known == NULL else <object>known, where)
    return _followed(document, nodes, node) if "$ref" in part else node.conj


cdef object below(node, part, str keyword):
    """Return the subschema under a keyword, as `Node.below`."""
    found = plainly(part)
    if found is not None:
        return found
    document = node.document
    library = document.library
    if type(part) is not dict or node.scope or library.dynamic:
        return node.below(part, keyword)
    return _conj_of(document, document.nodes, library.embedded, <dict>part, node.resource, _entered(node, keyword))


cdef dict each_below(node, dict schemas, str keyword):
    """Return the subschemas under names in a keyword's value, as `Node.each_below`."""
    cdef Py_ssize_t position = 0
    cdef PyObject* name
    cdef PyObject* schema
    cdef dict found = {}, nodes, embedded
    document, resource = node.document, node.resource
    library = document.library
    if node.scope or library.dynamic:
        return node.each_below(schemas.items(), keyword)
    inside, nodes, embedded = _entered(node, keyword), document.nodes, library.embedded
    while PyDict_Next(schemas, &position, &name, &schema):
        part = <object>schema
        conj = plainly(part)
        if conj is None:
            if type(part) is dict:
                conj = _conj_of(document, nodes, embedded, <dict>part, resource, (inside, <object>name))
            else:
                conj = node.below(part, keyword, <object>name)
        found[<object>name] = conj
    return found


cdef bint are_near(node, list schemas) except -1:
    """Say whether some subschemas of a node belong to its resource, and no dynamic scope counts."""
    library = node.document.library
    if node.scope or library.dynamic:
        return False
    for part in schemas:
        if PyDict_GetItemWithError(library.embedded, PyLong_FromVoidPtr(<void*>part)) != NULL:
            return False
    return True


cdef list each_of(node, list schemas, str keyword):
    """Return the nodes of the subschemas in a keyword's list, which `are_near` and have no reference."""
    cdef Py_ssize_t at
    cdef dict nodes
    document, resource = node.document, node.resource
    inside, nodes = _entered(node, keyword), document.nodes
    return [_node_of(document, nodes, schemas[at], resource, (inside, at)) for at in range(len(schemas))]


# ======================================================================================================================
# Copies of schemas that are nothing but JSON, in one pass; `by_content` does the same by way of bytes.  And the size
# of anything.
#
# Owns: nothing.  Strings and numbers are shared with what is copied, as nobody can change them.
# Plain twins: `by_content._rebuilt`, `by_content._parts`; compared in tests/test_schema_leaves.py.
# ======================================================================================================================

cdef inline int _kind(object value) except -1:
    """Return 0 for what holds nothing, 1 for a dictionary, 2 for a list, 3 for what JSON lacks."""
    kind = type(value)
    if kind is str or value is None or kind is bool or kind is int:
        return 0
    if kind is dict:
        return 1
    if kind is list:
        return 2
    return 0 if kind is float and isfinite(<double>value) else 3


def plain_copy(value, Py_ssize_t most):
    """Return a deep copy of a JSON value of Python's own types, without a number that is not finite; None for any
    other, and where more than `most` values are inside.  Parts that occur twice are copied twice.

    No recursion.  Cost: 0.1 µs per container and 0.01 µs per entry.
    """
    cdef list box = [value], todo = [box], row
    cdef dict entries
    cdef PyObject* key
    cdef PyObject* part
    cdef Py_ssize_t at, position, count = 0
    cdef int kind
    while todo:
        top = todo.pop()
        if type(top) is list:
            row = <list>top
            for at in range(len(row)):
                inner = row[at]
                kind = _kind(inner)
                if kind == 3:
                    return None
                if kind:
                    count += len(inner)
                    if count > most:
                        return None
                    inner = PyDict_Copy(inner) if kind == 1 else (<list>inner)[:]
                    row[at] = inner
                    if inner:
                        todo.append(inner)
        else:
            entries, position = <dict>top, 0
            while PyDict_Next(entries, &position, &key, &part):
                if type(<object>key) is not str:
                    return None
                kind = _kind(<object>part)
                if kind == 3:
                    return None
                if kind:
                    count += len(<object>part)
                    if count > most:
                        return None
                    inner = PyDict_Copy(<object>part) if kind == 1 else (<list><object>part)[:]
                    PyDict_SetItem(entries, <object>key, inner)  # in the place of a known key: the table stays
                    if inner:
                        todo.append(inner)
    return box[0]


def is_within(values, Py_ssize_t most):
    """Return whether there are at most so many values inside of a container, in containers within it or not.

    No recursion.  Cost: 0.05 µs per container and 0.005 µs per entry.
    """
    cdef list todo = [values]
    cdef PyObject* key
    cdef PyObject* part
    cdef Py_ssize_t position, count = 0
    while todo:
        top = todo.pop()
        count += len(top)
        if count > most:
            return False
        if type(top) is dict:
            position = 0
            while PyDict_Next(<dict>top, &position, &key, &part):
                kind = type(<object>part)
                if kind is dict or kind is list or kind is tuple:
                    todo.append(<object>part)
        else:
            for inner in top:
                kind = type(inner)
                if kind is dict or kind is list or kind is tuple:
                    todo.append(inner)
    return True


# ======================================================================================================================
# A look at the keywords of a schema for a value, as `quick` does it, in one pass over most schemas.
#
# Owns: what the words of schemas ask for, as flags.  Patterns, constants that are no texts, alternatives and whatever
# else stands beside something unusual go to the functions of `quick`.
# Plain twin: `quick.looks_live`; compared in tests/test_schema_compiled.py.
# No recursion beyond `deepest`, which each step into a schema comes nearer to.
# ======================================================================================================================

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)


cdef enum:
    # what a word says: one of the demands …
    DEMANDS_REQUIRED = 1
    DEMANDS_MIN_ITEMS = 2
    DEMANDS_ENUM = 3
    DEMANDS_REFERENCE = 4
    DEMANDS_BOUND = 5
    DEMANDS_MIN_LENGTH = 6
    DEMANDS_OTHER = 7
    DEMAND = 7          # the bits of a demand
    # … or that it may refuse what another one demands
    OF_KEYS = 8
    OF_ITEMS = 16
    OF_OTHER_KEYS = 32
    OF_FORMAT = 64
    OF_LENGTH = 128

cdef dict _DEMANDS = {
    "required": DEMANDS_REQUIRED, "minItems": DEMANDS_MIN_ITEMS, "enum": DEMANDS_ENUM, "$ref": DEMANDS_REFERENCE,
    "minLength": DEMANDS_MIN_LENGTH,
}


@final
cdef class Glance:
    """A callable: schema, targets of references, depth → whether a value is seen; False says nothing.

    others: what looks at a schema with demands that are not plain; room: characters in which each format has a text.
    """

    def __init__(self, others, int deepest, *, long room, demanding, bounds, keys, items, other_keys):
        self.others, self.deepest, self.room = others, deepest, room
        self.words = {
            word: DEMANDS_BOUND if word in bounds else _DEMANDS.get(word, DEMANDS_OTHER) for word in demanding}
        for words, flag in ((keys, OF_KEYS), (items, OF_ITEMS), (other_keys, OF_OTHER_KEYS)):
            for word in words:
                self.words[word] = self.words.get(word, 0) | flag
        self.words["format"], self.words["maxLength"] = OF_FORMAT, OF_LENGTH

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
            if flags & OF_FORMAT and flags & OF_LENGTH and not self.has_room((<dict>schema)["maxLength"]):
                return False
            return (<dict>schema).get("type") != []
        if depth >= self.deepest:
            return False
        known = PyDict_GetItemWithError(schema, "type")
        if demands == 1 and (known == NULL or type(<object>known) is str):
            given = <object>demanded
            kind = None if known == NULL else <object>known
            if demand == DEMANDS_REQUIRED:
                if kind == "object" and type(given) is list and not flags & OF_KEYS:
                    return self.has_keys(schema, given, not flags & OF_OTHER_KEYS, targets, depth)
            elif demand == DEMANDS_MIN_ITEMS:
                if kind == "array" and not flags & OF_ITEMS:
                    return self.look((<dict>schema).get("items", True), targets, depth + 1)
            elif demand == DEMANDS_ENUM:
                if (kind is None or kind == "string") and not flags & (OF_FORMAT | OF_LENGTH) and _has_text(given):
                    return True
            elif demand == DEMANDS_REFERENCE:
                if len(<dict>schema) == 1:
                    target = targets.get((PyLong_FromVoidPtr(<void*>schema), "$ref"))
                    if target is None or target.dynamic is not None:
                        return False
                    return self.look(target.schema, targets, depth + 1)
            elif demand == DEMANDS_BOUND:
                return kind == "integer" or kind == "number"
            elif demand == DEMANDS_MIN_LENGTH and not flags & (OF_LENGTH | OF_FORMAT):
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


# ======================================================================================================================
# Whether a schema is plain, as `quick.is_plain` says it, in one pass.
#
# Owns: what its words say, as numbers.  Texts that are not ASCII, and whether bounds agree, are left to the functions
# of `quick`.
# Plain twin: `quick.looks_plain`; compared in tests/test_schema_compiled.py. No recursion beyond the depth that it is
# given.
# ======================================================================================================================

cdef enum:
    SAYS_TYPE = 1
    SAYS_PROPERTIES = 2
    SAYS_REQUIRED = 3
    SAYS_ENUM = 4
    SAYS_ITEMS = 5
    SAYS_OTHER_KEYS = 6
    SAYS_NOTE = 7
    SAYS_NUMBER = 8

cdef dict _SAYS = {
    "type": SAYS_TYPE, "properties": SAYS_PROPERTIES, "required": SAYS_REQUIRED, "enum": SAYS_ENUM, "items": SAYS_ITEMS,
    "additionalProperties": SAYS_OTHER_KEYS,
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
        self.words = {**dict.fromkeys(notes, SAYS_NOTE), **dict.fromkeys(numbers, SAYS_NUMBER), **_SAYS}
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
            if says == SAYS_TYPE:
                if not self.is_type(<object>value):
                    return False
            elif says == SAYS_PROPERTIES:
                if not self.are_properties(<object>value, depth):
                    return False
            elif says == SAYS_REQUIRED:
                if not self.are_required(<object>value, schema):
                    return False
            elif says == SAYS_ENUM:
                if not self.are_members(<object>value, schema):
                    return False
            elif says == SAYS_ITEMS:
                if not self.look(<object>value, depth - 1):
                    return False
            elif says == SAYS_OTHER_KEYS:
                if <object>value is not False:
                    return False
            elif says == SAYS_NUMBER:
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


# ======================================================================================================================
# `is_never` of what is known or plainly live, which is asked of every key that an object has.
#
# Owns: nothing.  Borrows: the answers of documents, in which those that are found are entered.
# Plain twin: `normalise.PlainAsker`; compared in tests/test_schema_compiled.py.
# ======================================================================================================================

@final
cdef class Asker:
    """Asks whether conjunctions have values.  decide: what finds out, of a conjunction that is not plainly live."""

    def __init__(self, Glance glance, decide):
        self.glance, self.decide = glance, decide

    def is_never(self, conj):
        """Return whether no value belongs to a conjunction.

        Raises: as `normalise`.
        """
        return not self.live(conj)

    def is_live(self, conj):
        """Return whether some value belongs to a conjunction; errors as of `is_never`."""
        return self.live(conj)

    cdef bint live(self, conj) except -1:
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
        if len(conj) == 1 and signed.positive and schema and self.glance.look(schema, document.library.targets, 0):
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
                if not self.live(named[key]):
                    found = False
        return found


# ======================================================================================================================
# Which schemas are plain: what their keywords say, as bits, and the kinds of what may be said together.
#
# For `Reader`, which gives plain schemas their normal form.  What has an unusual form is not plain.
# ======================================================================================================================

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


# ======================================================================================================================
# Objects whose keys are in sight, of many tools at once: what a kernel asks of `beginnings.UnreadObject`.
#
# Owns: the names of plain schemas.  Borrows: what `beginnings.Parts` has made of them, which it adds to.
# Plain twins: `UnreadObject.plain_table` and `Parts.state`, which names schemas by their content; compared in
# tests/test_waiting_arguments.py.
# ======================================================================================================================

cdef enum:
    MOST_BITS = 62      # keys whose mask is one number of C
    DEEPEST = 8         # of schemas that have a name
    IN_OBJECT = 0          # what a part of a name was
    IN_ARRAY = 1

cdef object _Table = ObjectTable, _new_tuple = tuple.__new__


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
    cdef list found = [IN_OBJECT]
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
    return (IN_ARRAY, *texts)
