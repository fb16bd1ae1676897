"""`once`: a property that is computed when it is first asked for, and an attribute from then on.

As `functools.cached_property`, but for its lock: that one holds all objects of a class apart, and until Python 3.12 it
took 0.3 µs more than this, a third of what an object of a schema spends on being entered.  Two threads that ask for the
same property at once may both compute it; both get the result that was ready first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Owner = TypeVar("Owner")
Result = TypeVar("Result")


class once(Generic[Owner, Result]):  # noqa: N801 - a decorator
    """A decorator of methods, of classes whose objects have a `__dict__`.

    >>> class Circle:
    ...     @once
    ...     def area(self) -> float:
    ...         print("computing")
    ...         return 3.14
    >>> circle = Circle()
    >>> circle.area, circle.area
    computing
    (3.14, 3.14)
    """

    def __init__(self, compute: Callable[[Owner], Result]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__
        self._name = compute.__name__

    @overload
    def __get__(self, owner: None, kind: type[Any]) -> once[Owner, Result]: ...

    @overload
    def __get__(self, owner: Owner, kind: type[Any]) -> Result: ...

    def __get__(self, owner: Owner | None, kind: type[Any]) -> once[Owner, Result] | Result:
        """Compute it.  The attribute that is entered hides this, as a descriptor without `__set__` may be hidden."""
        if owner is None:
            return self
        value = self._compute(owner)
        kept: Result = owner.__dict__.setdefault(self._name, value)
        return kept
