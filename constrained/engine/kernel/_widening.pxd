# cython: language_level=3
from constrained.engine.kernel.masks._composer cimport Composer


cdef int widen(Composer composer) except -1
