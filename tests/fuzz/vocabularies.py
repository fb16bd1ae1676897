"""Damaged files of saved vocabularies: each is refused with an error of the tree, or is the vocabulary that it names.

    python -m tests.fuzz.vocabularies --count 2000 --seed 1

A file is damaged as a disk does it (bytes, a length) and as somebody does who knows the format: numbers of an array,
values of the header, with a fingerprint that fits.  What loads must be equal to a vocabulary built of its own tokens,
array by array, so that no number of a file reaches a kernel unseen.

Cost: 0.3 ms a file.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import constrained as c
from constrained.engine.tokens.trie import Layout, shapes
from constrained.engine.tokens.vocabulary import MAGIC

TEXTS = ["a", "ab", "abc", "é", "日本", '"', '":', "\n", "x" * 70, "ab", *map(chr, range(32, 127))]
HALVES = [b"\xe6\x97", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\x80\x80"]
NUMBERS = (0, 1, -1, 2, 255, 2**31 - 1, -(2**31), 2**24, 100, -100)
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 10**9, 2**63, 10**400, 1.5, "x", "", [], {}, [None], {"a": 1}, {"": 0}, {"b": -1}, [10**9], "big",
)  # fmt: skip


def vocabulary() -> c.Vocabulary:
    """Return the vocabulary whose file is damaged."""
    texts = [*[text.encode() for text in TEXTS], *HALVES]
    count = len(texts)
    return c.Vocabulary(texts, {"<s>": count, "</s>": count + 2}, [count + 2], count + 9, notes=["n"])


class Files:
    """A saved vocabulary and what can be done to its file."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._random, self._path = random.Random(seed), folder / "damaged"
        whole = vocabulary()
        whole.save(folder / "sound")
        self._sound = (folder / "sound").read_bytes()
        self._fingerprint = whole.fingerprint
        self._damages: tuple[Callable[[], bytes], ...] = (
            self._bytes, self._length, self._number, self._several, self._header, self._forged,
        )  # fmt: skip
        self.found: Counter[str] = Counter()

    def run(self, count: int) -> None:
        """Load so many damaged files.

        Raises: AssertionError: one is neither refused nor what it says.
        """
        for number in range(count):
            damage = self._random.choice(self._damages)
            self._path.unlink(missing_ok=True)  # a mapped file is never written to
            self._path.write_bytes(damage())
            try:
                found = c.Vocabulary.load(self._path)
            except c.ConstrainedError as error:
                self.found[re.sub(r"[\d,]+|'.*?'", "…", f"{error.what}: {error.because}")[:70]] += 1
                continue
            check(found)
            assert damage == self._forged or found.fingerprint == self._fingerprint, f"number {number}"
            self.found["loaded"] += 1

    # -- as a disk does it -------------------------------------------------------------------------------------------

    def _bytes(self) -> bytes:
        data = bytearray(self._sound)
        for _ in range(self._random.choice((1, 1, 2, 30))):
            data[self._random.randrange(len(data))] ^= 1 << self._random.randrange(8)
        return bytes(data)

    def _length(self) -> bytes:
        at = self._random.choice((0, 1, 64, len(self._sound) - 1, self._random.randrange(len(self._sound))))
        return self._random.choice((self._sound[:at], self._sound + bytes(at), self._sound[at:]))

    # -- as somebody does who knows the format -----------------------------------------------------------------------

    def _parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        end = self._sound.index(b"\n", len(MAGIC)) + 1
        header, at, arrays = json.loads(self._sound[len(MAGIC) : end]), end, {}
        for name, (kind, shape) in shapes(header["counts"]).items():
            count = int(np.prod(shape))
            arrays[name] = np.frombuffer(self._sound, kind, count, at).reshape(shape).copy()
            at += arrays[name].nbytes + -arrays[name].nbytes % 64
        return header, arrays

    def _whole(self, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
        try:
            text = json.dumps(header).encode()
        except ValueError:  # a number with too many digits
            text = b"{"
        beginning = MAGIC + text
        parts = [beginning + b" " * (-(len(beginning) + 1) % 64) + b"\n"]
        return b"".join([*parts, *(array.tobytes() + bytes(-array.nbytes % 64) for array in arrays.values())])

    def _number(self, times: int = 1) -> bytes:
        header, arrays = self._parts()
        for _ in range(times):
            array = arrays[self._random.choice([name for name in arrays if arrays[name].size])].reshape(-1)
            value = self._random.choice((*NUMBERS, array[self._random.randrange(len(array))]))
            array[self._random.randrange(len(array))] = np.array(value).astype(array.dtype)
        return self._whole(header, arrays)

    def _several(self) -> bytes:
        return self._number(self._random.randrange(2, 9))

    def _header(self) -> bytes:
        header, arrays = self._parts()
        place = self._random.choice((header, header, header["counts"], header["special"]))
        name = self._random.choice((*place, "more"))
        value = self._random.choice((*VALUES, *[value + 1 for value in header["counts"].values()]))
        if self._random.random() < 0.2:
            place.pop(name, None)
        else:
            place[name] = "x" * (1 << 24) if value == "big" else value
        return self._whole(header, arrays)

    def _forged(self) -> bytes:
        """Change texts or what belongs to them, and let the fingerprint fit, and the arrays at times."""
        header, arrays = self._parts()
        arrays["data"][self._random.randrange(len(arrays["data"]) - 1)] = self._random.choice(b"abcz\x00\xff\xe6")
        if self._random.random() < 0.5:
            header["stop"] = self._random.choice(([], [len(TEXTS) + len(HALVES)], [0]))
        made = Layout.of_tokens(Layout.of_tokens([b"x"]).texts())  # an own layout, to ask it for a fingerprint
        made = Layout(arrays["starts"], arrays["data"], made.trie, made.characters, made.fewest_first, made.with_at_most)
        header["fingerprint"] = made.fingerprint(header["special"], tuple(header["stop"]), header["dummy_prefix"])
        if self._random.random() < 0.5:
            whole = Layout.of_tokens(made.texts())
            fitting = {**dict(whole.arrays()), "starts": arrays["starts"]}
            header["counts"] |= {"nodes": whole.trie.nodes, "longest": whole.longest}
            arrays = {name: fitting[name] for name in shapes(header["counts"])}
        return self._whole(header, arrays)


def check(found: c.Vocabulary) -> None:
    """Raise unless a vocabulary is the one of its own tokens."""
    again = c.Vocabulary(found.tokens, found.special, found.stop, found.size, dummy_prefix=found.dummy_prefix)
    assert again == found
    for (name, array), (_, other) in zip(again.layout.arrays(), found.layout.arrays(), strict=True):
        assert array.dtype == other.dtype and np.array_equal(array, other), name
        assert not other.flags.writeable, name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = Files(Path(folder), arguments.seed)
        files.run(arguments.count)
    for what, count in files.found.most_common():
        print(f"{count:6} {what}")


if __name__ == "__main__":
    main()
