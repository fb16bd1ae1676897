"""Does pydantic read all that the practical profile writes, and how much shorter is that than the exact profile's?

Random walks along the masks of some models and types: of the allowed tokens any one, and after forty the shortest
way to the end.

    python -m constrained.benchmarks.profiles [--walks 1000] [--models Order Tree]
"""

from __future__ import annotations

import argparse
import collections
import datetime
import decimal
import enum
import ipaddress
import pathlib
import random
import statistics
import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from constrained.default_model import WIDTH, load_tokenizer
from pydantic import (
    UUID4,
    Base64Bytes,
    Base64Str,
    Base64UrlBytes,
    BaseModel,
    ByteSize,
    ConfigDict,
    Field,
    FutureDate,
    HttpUrl,
    IPvAnyAddress,
    NaiveDatetime,
    PastDate,
    PastDatetime,
    PostgresDsn,
    SecretStr,
    TypeAdapter,
    ValidationError,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass

from constrained import Grammar, Vocabulary, compile

FREE_TOKENS = 40
NOON = datetime.datetime(2024, 1, 1, 12)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    x: float
    y: float


class Person(BaseModel):
    name: str = Field(min_length=1, max_length=20)
    age: int = Field(ge=0, le=130)
    email: str | None = None


class Event(BaseModel):
    at: datetime.datetime
    day: datetime.date
    clock: datetime.time
    lasts: datetime.timedelta


class Price(BaseModel):
    amount: decimal.Decimal = Field(max_digits=8, decimal_places=2)
    rate: decimal.Decimal
    share: Annotated[decimal.Decimal, Field(ge=0, le=1)]


class Bounded(BaseModel):
    small: Annotated[int, Field(gt=0, lt=10, multiple_of=3)]
    ratio: Annotated[float, Field(ge=0, le=1)]
    positive: Annotated[float, Field(gt=0)]
    step: Annotated[float, Field(multiple_of=0.25)]


class Order(BaseModel):
    id: uuid.UUID
    items: list[Price] = Field(min_length=1, max_length=3)
    color: Color
    note: str = ""


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(ge=1, le=9)


class Dog(BaseModel):
    kind: Literal["dog"]
    good: bool


class Owner(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    others: list[Cat | Dog] = []


class Mixed(BaseModel):
    value: int | float | str | bool | None
    pair: tuple[int, str]
    codes: set[Annotated[int, Field(ge=0, le=99)]]


class Table(BaseModel):
    rows: dict[str, list[float]]
    counts: dict[str, int] = {}


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    flag: bool
    number: int
    text: Annotated[str, Field(pattern=r"^[a-z]{2,5}-\d+$")]


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


class Linked(BaseModel):
    label: Annotated[str, Field(max_length=5)]
    next: Linked | None = None


class Server(BaseModel):
    id: UUID4
    home: HttpUrl
    store: PostgresDsn | None
    address: IPvAnyAddress | ipaddress.IPv4Address
    folder: pathlib.Path
    secret: SecretStr
    key: Base64Bytes
    since: NaiveDatetime


class Keyed(BaseModel):
    numbers: dict[int, str] = Field(min_length=1, max_length=2)
    shares: dict[Annotated[int, Field(ge=0, le=9)], bool]
    rates: dict[float, int]
    flags: dict[bool, int]
    colors: dict[Color, int]
    names: dict[Annotated[str, Field(pattern="^[a-z]{2,3}$")], int]
    due: FutureDate
    born: PastDate
    seen: PastDatetime


@pydantic_dataclass
class Level:
    """A dataclass of pydantic, whose fields have bounds."""

    number: int = Field(ge=1, le=12)
    name: str = Field(default="ground", max_length=8)


@dataclass
class Reading:
    """A dataclass of the standard library."""

    at: datetime.datetime
    values: list[float]
    unit: Literal["celsius", "kelvin"] = "celsius"


MODELS: dict[str, Any] = {
    model.__name__: model
    for model in (
        *(Point, Person, Event, Price, Bounded, Order, Tree, Owner, Mixed, Table, Strict, Open, Linked, Server, Keyed),
        *(Level, Reading),
    )
} | {
    str(kind): kind
    for kind in (
        *(list[Event | None], dict[int, str], dict[Literal["a", "b"], int], dict[Color, int], dict[bool, float]),
        *(
            dict[Annotated[str, Field(pattern="^x")], int],
            collections.Counter[str],
            collections.defaultdict[str, list[int]],
        ),
        *(bytes, complex, ByteSize, Base64Str, Base64UrlBytes, ipaddress.IPv4Network, ipaddress.IPv6Interface),
        Annotated[decimal.Decimal, Field(max_digits=4, decimal_places=2)],
        Annotated[datetime.date, Field(gt=NOON.date(), le=datetime.date(2024, 3, 1))],
        Annotated[datetime.datetime, Field(ge=NOON, lt=datetime.datetime(2024, 2, 1))],
        Annotated[datetime.datetime, Field(gt=NOON.replace(tzinfo=datetime.UTC))],
        Annotated[datetime.time, Field(ge=datetime.time(9), le=datetime.time(17))],
    )
}


@dataclass
class Found:
    """What became of a model's walks."""

    lengths: list[int] = field(default_factory=list)  # bytes
    faults: list[str] = field(default_factory=list)


def check(name: str, vocabulary: Vocabulary, profile: str, walks: int, seed: int = 0) -> Found:
    """Write some texts of a model under a profile, and let pydantic read them."""
    constraint = compile(Grammar.from_json_schema(MODELS[name], profile=profile), vocabulary, max_work=None)
    read, picks, found = TypeAdapter(MODELS[name]).validate_json, random.Random(seed), Found()
    row = np.zeros((1, vocabulary.words), np.int32)
    for _ in range(walks):
        matcher = constraint.matcher()
        while not matcher.is_finished():
            matcher.fill_mask(row)
            allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
            if len(matcher.tokens) >= FREE_TOKENS:
                for token in matcher.shortest_completion():
                    matcher.advance(token)
                break
            matcher.advance(int(picks.choice(allowed)))
        text = vocabulary.decode(token for token in matcher.tokens if token not in vocabulary.stop)
        found.lengths.append(len(text))
        try:
            read(text)
        except ValidationError as error:
            found.faults.append(f"{text!r}: {error.errors()[0]['msg']}")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--walks", type=int, default=1000)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS, metavar="MODEL")
    options = parser.parse_args(arguments)
    vocabulary, wrong = Vocabulary.from_tokenizer(load_tokenizer(), size=WIDTH), 0
    for name in options.models:
        began, said = time.process_time(), [f"{name:20}"]
        for profile in ("practical", "exact"):
            found = check(name, vocabulary, profile, options.walks)
            said.append(
                f"{profile}: {len(found.faults):4} of {options.walks} refused, median "
                f"{statistics.median(found.lengths):5.0f} bytes"
            )
            if profile == "practical":
                wrong += len(found.faults)
                said += ["\n    " + fault for fault in found.faults[:3]]
        print("  ".join(said), f"  {time.process_time() - began:.1f} s", flush=True)
    print(f"{wrong} refused under the practical profile")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
