"""Who shares kernels and how much they may hold; checked blocks, arenas, the meter of work, the lock."""
