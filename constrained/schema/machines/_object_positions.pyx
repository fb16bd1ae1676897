# cython: language_level=3
"""The edges of positions in objects that no clause ties together and whose keys come in any order, one call each.

Objects of which a schema has several alternatives are read position by position; see `object`, whose methods these
stand for, with the same states in the same order and the same units of work.  Other objects are left to the methods.

Owns and borrows nothing.
Plain twin: `ObjectPosition.plain_expand`, `ObjectMachine.plain_named_entry` and `plain_other_entry`, and the methods of
`object_keys`; compared in tests/test_schema_machines_compiled.py.
"""
from constrained._work cimport spent

from constrained.errors import LimitExceeded
from constrained.machine import END, Edges, LiteralSet, Text
from constrained.schema.reading.places import located

cdef enum:
    FIRST = 0
    AFTER = 1
    NEXT = 2

cdef object _END = END, _Edges = Edges, _Text = Text, _LiteralSet = LiteralSet
cdef object _new_tuple = tuple.__new__
cdef object _Position, _Entry, _Begin, _NamedKey, _OtherKey


def use(position, entry, begin, named_key, other_key):
    """Take the classes of `object`, which come after this."""
    global _Position, _Entry, _Begin, _NamedKey, _OtherKey
    _Position, _Entry, _Begin, _NamedKey, _OtherKey = position, entry, begin, named_key, other_key


def expand(at):
    """Return the edges of a position."""
    machine = (<tuple>at)[0]
    if not machine.is_simple:
        return at.plain_expand()
    try:
        return _edges(<tuple>at, machine)
    except LimitExceeded as error:
        raise located(error, machine.place) from None


cdef _edges(tuple at, machine):
    cdef list calls = []
    cdef bint closes
    _, phase, padded, written, _, size, _, _ = at
    spent(6, machine)
    marks = machine.punctuation
    needed = machine.required & ~written
    closes = not needed and size >= machine.shape.min
    if phase == AFTER:
        if _offered(at, machine, needed) or _offers_other(at, machine, needed):
            calls.append((marks.comma, _tight(at, NEXT)))
    else:
        _add_entries(calls, at, machine, needed)
        closes = closes and phase == FIRST
    if padded:
        calls.append((marks.gap, _tight(at, phase)))
    byte = marks.objects.closing
    return _new_tuple(_Edges, (((byte, byte, _END),) if closes else (), tuple(calls), (), False))


cdef _tight(tuple at, phase):
    return _new_tuple(_Position, (at[0], phase, False, *at[3:]))


cdef _offered(tuple at, machine, needed):
    """As `ObjectMachine.offered`."""
    ahead = machine.usable & ~at[3]
    most = machine.shape.max
    return ahead & needed if most is not None and at[5] + needed.bit_count() >= most else ahead


cdef bint _offers_other(tuple at, machine, needed) except -1:
    """Say whether a key of a cell may come."""
    if not machine.cells:
        return False
    most = machine.shape.max
    if most is not None and at[5] + needed.bit_count() >= most:
        return False
    return _completable(machine, at[3], machine.counted(at[5]))


cdef bint _completable(machine, written, size) except -1:
    """As `ObjectMachine.completable`."""
    needed, ahead = machine.required & ~written, machine.usable & ~written
    shape = machine.shape
    if needed & ~ahead:
        return False
    least = size + needed.bit_count()
    if shape.max is not None and least > shape.max:
        return False
    return least >= shape.min or machine.cells or size + ahead.bit_count() >= shape.min


cdef int _add_entries(list calls, tuple at, machine, needed) except -1:
    """Add the calls that read the next key, as `ObjectMachine.entries`."""
    names, quoting = machine.names, machine.punctuation.keys.quoting
    offers = _offered(at, machine, needed)
    if offers:
        excluded = ~offers & ((<object>1 << len(names)) - 1)
        calls.append((_new_tuple(_Text, (quoting, _LiteralSet(names, excluded))), _NamedKey(at)))
    if _offers_other(at, machine, needed):
        refused = machine.special | at[4]
        for number, cell in enumerate(machine.cells):
            calls.append((_new_tuple(_Text, (quoting, cell.language)), _OtherKey(at, number, refused)))
    return 0


def named_entry(machine, at, label):
    """Return what follows the key names[label], as `ObjectMachine.named_entry`."""
    if not machine.is_simple:
        return machine.plain_named_entry(at, label)
    _, _, _, written, others, size, _, _ = <tuple>at
    return _entry_of(machine, machine.values.named(machine.names[label]), machine.conjs[label],
                         written | <object>1 << label, others, size)


def other_entry(machine, at, int cell, text):
    """Return what follows a key of a cell, as `ObjectMachine.other_entry`."""
    if not machine.is_simple:
        return machine.plain_other_entry(at, cell, text)
    _, _, _, written, others, size, _, _ = <tuple>at
    return _entry_of(machine, machine.values, machine.cells[cell].value, written,
                         others if text is None else others | {text}, size)


cdef _entry_of(machine, values, conj, written, others, size):
    size = machine.counted(size)
    if not _completable(machine, written, size):
        return None
    marks = machine.punctuation
    after = _new_tuple(_Position, (machine, AFTER, marks.gap is not None, written, others, size, 0, 0))
    return _new_tuple(_Entry, (values, marks.keys.colon, ((conj, after),)))


def expand_entry(entry):
    """Return the edges of an `object.Entry`."""
    values, colon, options = <tuple>entry
    begin = _new_tuple(_Begin, (values, options))
    return _new_tuple(_Edges, ((), ((colon, begin),), (), False))


def expand_begin(begin):
    """Return the edges of an `object.Begin`."""
    values, options = <tuple>begin
    state = values.state
    return _new_tuple(_Edges, ((), tuple([(state(conj), after) for conj, after in <tuple>options]), (), False))
