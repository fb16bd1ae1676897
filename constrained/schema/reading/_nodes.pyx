# cython: language_level=3
"""Nodes of subschemas, for compiled passes: `Node.below`, `Node.each_below` and `Document.follow` where they are plain.

The same nodes in the same order, and the same units of work.  Dynamic scopes, chains of references and references with
neighbours that count go to the methods of `reading.nodes`, which are the plain twin; compared in
tests/test_schema_compiled.py through the passes that read schemas with these.

Owns: nothing.  Borrows: the tables of documents, in which nodes and what they refer to are entered.
"""
from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next
from cpython.long cimport PyLong_FromVoidPtr
from cpython.ref cimport PyObject
from constrained._work cimport spent

from constrained.schema.reading.nodes import NOTHING, Node, serials
from constrained.schema.values import ALWAYS, SignedNode

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


def made_node(document, schema, resource, scope, where):
    """As `Node`, of no scope."""
    return new_node(document, schema, resource, where)


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


def each_named(node, schemas, str keyword):
    """As `keywords.subschemas.plain_under_names`."""
    if type(schemas) is dict:
        return each_below(node, <dict>schemas, keyword)
    return node.each_below(schemas.items(), keyword)


def each_of_list(node, schemas, str keyword):
    """As `keywords.subschemas.plain_in_list`."""
    cdef Py_ssize_t at
    cdef list found
    cdef dict nodes, embedded
    document, resource = node.document, node.resource
    library = document.library
    if type(schemas) is not list or node.scope or library.dynamic:
        return tuple(node.each_below(enumerate(schemas), keyword).values())
    inside, nodes, embedded, found = _entered(node, keyword), document.nodes, library.embedded, []
    for at in range(len(<list>schemas)):
        part = (<list>schemas)[at]
        conj = plainly(part)
        if conj is None:
            if type(part) is dict:
                conj = _conj_of(document, nodes, embedded, <dict>part, resource, (inside, at))
            else:
                conj = node.below(part, keyword, at)
        found.append(conj)
    return tuple(found)
