"""Write grammars/lowered.bin again: what reading the Lark texts of the shipped formats gives, see `formats.pairs`.

    python tools/lowered_grammars.py

To be run after a change to a .lark file or to what reads one, which tests/test_formats.py asks for; 20 s.
"""

from __future__ import annotations

import os
import pickle
import sys

from constrained.formats.definition import read_definition
from constrained.formats.pairs import FILE, digest, grammar_of_text, key_of, packed, shipped_names
from constrained.grammar.lark import shipped_folder


def main() -> None:
    """Read each text as each format has it, and write them all."""
    folder = shipped_folder()
    definitions = [read_definition(folder / f"{name}.toml", folder) for name in shipped_names()]
    unlike = {key_of(definition): definition for definition in definitions}
    entries = {key: packed(grammar_of_text(definition, key[0])) for key, definition in unlike.items()}
    (folder / FILE).write_bytes(pickle.dumps((digest(folder), entries), protocol=5))
    print(f"{len(entries)} grammars of {len(definitions)} formats")


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets are written in the order of their hashes
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})
    main()
