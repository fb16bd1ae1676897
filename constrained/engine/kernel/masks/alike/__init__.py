"""States that no token tells apart: which have one mask, found by what they are like before a mask is made."""
