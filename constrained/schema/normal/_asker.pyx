# cython: language_level=3
"""`is_never` of what is known or plainly live, which is asked of every key that an object has.

Owns: nothing.  Borrows: the answers of documents, in which those that are found are entered.
Plain twin: `normalise.PlainAsker`; compared in tests/test_schema_compiled.py.
"""
from cpython.dict cimport PyDict_GetItemWithError
from cpython.ref cimport PyObject
from cython cimport final
from constrained.schema.satisfiability._glance cimport Glance


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
