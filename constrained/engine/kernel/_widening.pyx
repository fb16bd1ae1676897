# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Room before it is needed: what a kernel keeps by number grows between two texts, not at a token of one.

An array of 10,000 states takes 50 to 200 µs to move to a larger place, and one token in a thousand met that.  So where
a text begins, all arrays and tables get room for half as much again; texts that add more than that grow them as ever.

Owns nothing: the arrays belong to the parts of the kernel, which grow them in the same way.
"""
from constrained.engine.memory._huge cimport huge_ready
from constrained.engine.memory._memory cimport enlarged
from constrained.engine.kernel._tables cimport ints_widen, map_widen, SMALL
from constrained.engine.kernel.automaton._automaton cimport Automaton, State
from constrained.engine.kernel.automaton._machines cimport Machine, Machines
from constrained.engine.kernel.automaton._objects cimport Objects
from constrained.engine.kernel.automaton._stacks cimport Stacks
from constrained.engine.kernel.automaton._written_keys cimport Written, WrittenKeys
from constrained.engine.kernel.masks._behind cimport Behind
from constrained.engine.kernel.masks._composer cimport Composer
from constrained.engine.kernel.masks._independent cimport IndependentMasks
from constrained.engine.kernel.masks.alike._alike_states cimport AlikeStates
from constrained.engine.kernel.texts._languages cimport LanguageAt, Languages
from constrained.engine.kernel.texts._positions cimport Position, Positions


cdef int widen(Composer composer) except -1:
    """Make room for half as much again of all that the parts of a kernel keep, where there is less."""
    huge_ready()
    widen_states(composer.automaton)
    widen_stacks(composer.stacks)
    widen_machines(composer.machines)
    widen_objects(composer.dispatches.objects, composer.dispatches.objects.keys)
    widen_texts(composer.positions, composer.positions.languages)
    widen_alike(composer.alike)
    widen_behind(composer.behind)
    widen_masks(composer, composer.masks)
    map_widen(&composer.dispatches.by_label)
    return map_widen(&composer.dispatches.by_record)


cdef inline void* widened(void* block, int* room, int count, size_t item) except NULL:
    """Return a block of items that has room for half as many again."""
    if count < SMALL or room[0] - count >= count // 2:
        return block
    return enlarged(block, room, item, count // 2 - (room[0] - count))


cdef int widen_states(Automaton automaton) except -1:
    if automaton.count:
        automaton.states = <State*>widened(automaton.states, &automaton.room, automaton.count, sizeof(State))
    ints_widen(&automaton.configurations)
    ints_widen(&automaton.next)
    return map_widen(&automaton.ids)


cdef int widen_stacks(Stacks stacks) except -1:
    ints_widen(&stacks.frames)
    ints_widen(&stacks.first)
    ints_widen(&stacks.next)
    ints_widen(&stacks.record_parent)
    ints_widen(&stacks.record_byte)
    map_widen(&stacks.ids)
    map_widen(&stacks.unions)
    map_widen(&stacks.pushed)
    map_widen(&stacks.stepped)
    return map_widen(&stacks.record_ids)


cdef int widen_machines(Machines machines) except -1:
    if machines.count:
        machines.at = <Machine*>widened(machines.at, &machines.room, machines.count, sizeof(Machine))
    ints_widen(&machines.ranges)
    return ints_widen(&machines.calls)


cdef int widen_objects(Objects objects, WrittenKeys keys) except -1:
    if keys.set_count:
        keys.sets = <Written*>widened(keys.sets, &keys.set_room, keys.set_count, sizeof(Written))
    ints_widen(&keys.set_words)
    ints_widen(&keys.set_next)
    map_widen(&keys.set_ids)
    map_widen(&objects.text_machines)
    return map_widen(&objects.state_ids)


cdef int widen_texts(Positions positions, Languages languages) except -1:
    if positions.count:
        positions.at = <Position*>widened(positions.at, &positions.room, positions.count, sizeof(Position))
    if languages.count:
        languages.at = <LanguageAt*>widened(languages.at, &languages.room, languages.count, sizeof(LanguageAt))
    ints_widen(&languages.edge_low)
    ints_widen(&languages.edge_high)
    ints_widen(&languages.edge_way)
    ints_widen(&languages.targets)
    map_widen(&languages.literal_ids)
    map_widen(&languages.offered_ids)
    return map_widen(&positions.ids)


cdef int widen_alike(AlikeStates alike) except -1:
    ints_widen(&alike.stack_kinds)
    ints_widen(&alike.around_kinds)
    ints_widen(&alike.first)
    map_widen(&alike.ids)
    return map_widen(&alike.kinds.ids)


cdef int widen_behind(Behind behind) except -1:
    map_widen(&behind.popped_states)
    map_widen(&behind.generic)
    return map_widen(&behind.values)


cdef int widen_masks(Composer composer, IndependentMasks masks) except -1:
    map_widen(&composer.ids)
    map_widen(&composer.shared_states.ids)
    map_widen(&composer.unions.ids)
    map_widen(&composer.ends.left_ids)
    map_widen(&composer.walk.bare_lights)
    map_widen(&masks.behind_ids)
    return map_widen(&masks.part_ids)
