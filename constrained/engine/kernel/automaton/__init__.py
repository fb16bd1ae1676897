"""From machine states to automaton states: edges, stacks, closures, steps."""
