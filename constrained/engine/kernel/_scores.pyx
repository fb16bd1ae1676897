# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Scores under packed masks, in one pass over memory; `integrations.servers.masks` does the same with numpy.

Scores are 32-bit floats looked at as whole numbers: a mask selects their bits or those of -inf.
"""

cdef extern from *:
    """
    #include <stdint.h>
    #define CONSTRAINED_FOUR(at) 1u << (at), 2u << (at), 4u << (at), 8u << (at)
    static const uint32_t CONSTRAINED_BIT[32] = {
        CONSTRAINED_FOUR(0), CONSTRAINED_FOUR(4), CONSTRAINED_FOUR(8), CONSTRAINED_FOUR(12),
        CONSTRAINED_FOUR(16), CONSTRAINED_FOUR(20), CONSTRAINED_FOUR(24), CONSTRAINED_FOUR(28)};
    /* PERF: compilers make vector instructions of this: each place has a constant of its own, and nothing branches. */
    static uint32_t constrained_select(const uint32_t *scores, uint32_t bits, uint32_t *found) {
        uint32_t left = 0;
        for (int at = 0; at < 32; at++) {
            uint32_t kept = -(uint32_t)((bits & CONSTRAINED_BIT[at]) != 0);
            found[at] = (scores[at] & kept) | (0xff800000u & ~kept);
            left |= found[at] ^ 0xff800000u;
        }
        return left;
    }
    """
    unsigned int constrained_select(const unsigned int* scores, unsigned int bits, unsigned int* found) noexcept nogil

cdef enum:
    MINUS_INFINITY = 0xff800000


def select(const unsigned int[:, ::1] scores, const unsigned int[:, ::1] allowed, unsigned int[:, ::1] found):
    """Write scores into `found`, -inf in place of those whose bit is not set; what lies beyond the masks is not
    allowed.  Return for each row whether anything but -inf is left in it.

    Shapes: scores and found (rows, width), the bits of 32-bit floats; allowed (rows, words), any number of words.
    Cost: 0.03 ms for a row of 128,000.  Lets go of the GIL.
    Raises: ValueError: other shapes.
    """
    cdef Py_ssize_t rows = scores.shape[0], width = scores.shape[1], words = allowed.shape[1]
    cdef Py_ssize_t whole = min(words, width // 32), row, word, at
    cdef unsigned int bits, left
    cdef list some = []
    if found.shape[0] != rows or allowed.shape[0] != rows or found.shape[1] != width:
        raise ValueError("scores, masks and what is written have the same rows, scores and what is written one width")
    for row in range(rows):
        with nogil:
            left = 0
            for word in range(whole):
                left |= constrained_select(&scores[row, word * 32], allowed[row, word], &found[row, word * 32])
            bits = allowed[row, whole] if whole < words else 0
            for at in range(whole * 32, width):
                found[row, at] = scores[row, at] if at < whole * 32 + 32 and bits >> (at & 31) & 1 else MINUS_INFINITY
                left |= found[row, at] ^ MINUS_INFINITY
        some.append(left != 0)
    return some
