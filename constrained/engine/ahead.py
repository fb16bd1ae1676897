"""What the masks of a large schema are made of, made while it is compiled and not while it is generated from.

A schema that takes much reading has most of what takes long in a generation: patterns, unions, conjunctions, formats,
each worked out when a generation first gets there, which may be milliseconds in the middle of it.  `compile` goes on,
for a few times as long at most, and makes these, nearest first, see `Preparation`; what it does not get to is
made when it is needed, as all of a small schema is.  The first schema over a large vocabulary counts as one that takes
reading: all others share what it makes, the masks of strings.  Those among the rules of a grammar are left out: of
fifty tools one is called.

What it takes is counted in units of work, which are the same on every machine, and taken off what the constraint may
spend, so that nowhere is more refused; it ends by itself, and never with an error.
Tested by tests/test_ahead.py: masks are those of a constraint that nothing was made for.
PERF: first tests of 848 schemas of MaskBench: the average step takes 0.69 of what it did, the slowest thousandth 0.46,
the slowest step 0.34, that of later tests 0.65; compiling takes 3.1 times as long on average, the whole request 1.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from constrained.engine.twin.automaton import PlainKernel
from constrained.errors import ConstrainedError
from constrained.work import Budget, Preempted

if TYPE_CHECKING:
    from constrained.engine.compiled import CompiledGrammar

SMALL = 60  # units of reading up to which nothing is made ahead: more than half of all schemas take no more
AGAIN = 60  # units for each further one; of 0.6 µs here
FIRST = 900  # units for the first schema over a vocabulary of
MANY = 10_000  # ids or more
MOST = 20_000
SHARE = 64  # part of what a constraint may spend that may be taken for it


def units_ahead(constraint: CompiledGrammar) -> int:
    """Return how many units of work are spent ahead of a generation, until what was begun is done."""
    vocabulary, read = constraint.vocabulary, getattr(constraint.grammar, "reading_units", 0)
    units: int = AGAIN * (read - SMALL) if read > SMALL else 0
    if read and not vocabulary.kernels.met_schema and vocabulary.size >= MANY:
        units = max(units, FIRST)
    return min(units, _most(constraint)) if units else 0


def _most(constraint: CompiledGrammar) -> int:
    """Return the most that may be spent, and the most that what was begun may take beyond that."""
    most = constraint.options.max_work
    return MOST if most is None else min(MOST, most // SHARE)


def prepare(constraint: CompiledGrammar) -> None:
    """Make what masks are made of, nearest to the start first, for `units_ahead`; once in a kernel."""
    units = units_ahead(constraint)
    if not units:
        return
    kernel, start = constraint.place()
    prepared = constraint.vocabulary.kernels.prepared.setdefault(kernel, set())
    if start in prepared:
        return
    prepared.add(start)
    constraint.vocabulary.kernels.met_schema = True
    options, room = constraint.options, _most(constraint)
    budget = Budget(units + room, deadline=options.deadline, cancelled=options.cancelled)
    budget.wanted = kernel.is_wanted
    found = preparation(constraint, kernel)
    try:
        while found is not None and budget.left > room and not kernel.is_full() and found.go_on(budget):
            pass
    except (ConstrainedError, Preempted):
        pass  # the rest when it is needed, and what is wrong with it
    own = constraint.budget
    own.left = max(0, own.left - (units + room - max(0, budget.left)))


def preparation(constraint: CompiledGrammar, kernel: Any) -> Any:
    """Return what prepares a grammar's parts, None where the kernel is the plain one, which has no parts."""
    if isinstance(kernel, PlainKernel):
        return None
    from constrained.engine.kernel._kernel import Preparation

    return Preparation(kernel, constraint._root)
