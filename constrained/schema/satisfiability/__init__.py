"""Satisfiability: whether a schema has a value at all, and how many, as far as somebody needs to know.

One question, `normalise.is_never`, and one answer: exact, a least fixpoint over the shapes that a conjunction has
(`shapes`, `items`; `counts` where numbers of values decide).  What else answers it, answers in one direction only and
says so:

    `plain`          yes, before the schema is read    tools that wait until they are called
    `quick`          yes, from the keywords            the fast path of `is_never`
    `alternatives.surely_never`   no, while normal forms are being made and cannot be asked for yet
    `completable`    of machines: can an object or array that is half written still be finished?
"""
