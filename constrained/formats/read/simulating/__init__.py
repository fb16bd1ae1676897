"""A grammar's rules → a network → all readings of a text at once, as marks of where rules begin and end.

    rules ── network (patterns) ──► nodes ── simulation ──► threads (stacks, trails), or where none could go on
                 steps that are known: threads ◄── stepping: what a character makes of threads, one after the other

Nothing here knows what rules mean, or that texts are messages.
"""
