"""Memory of the kernels: who shares one and how much it may hold; checked blocks, arenas, the meter, the lock."""
