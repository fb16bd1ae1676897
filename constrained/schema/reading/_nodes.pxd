# cython: language_level=3
"""Nodes of subschemas as `reading.nodes` makes them; see _nodes.pyx."""

cdef object new_node(document, schema, resource, where)
cdef object plainly(schema)
cdef object below(node, part, str keyword)
cdef dict each_below(node, dict schemas, str keyword)
cdef bint are_near(node, list schemas) except -1
cdef list each_of(node, list schemas, str keyword)
