"""Texts that are rejected, with the whole error of each: corpus/rejections/NAME.toml of the format NAME.

    python -m tests.rejections            writes the errors into the files anew, for whoever has changed a message

Read the difference before it is committed.

A row: `id`; `text`, in which ☞ stands where the fault is, as a person sees it; `error`, all that is printed, and its
`layer`.  Absent keys: `kind` is "assistant_turn"; `tools` are those of `TOOLS`, false: any tool; `options` are keyword
arguments of `parse`.  With several ☞ the error is that of the first, and further ones are among its `others`.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from constrained import ChatFormat, Rejected

CORPUS = Path(__file__).with_name("corpus")
FOLDER = CORPUS / "rejections"
HERE = "☞"
KNOWN = {
    tool["function"]["name"]: tool
    for tool in json.loads(tomllib.loads((CORPUS / "formats" / "calls.toml").read_text())["tools"])
}
TOOLS = [KNOWN[name] for name in ("weather", "ping", "invite")]


def rows():
    """Yield (name of the format, row)."""
    for path in sorted(FOLDER.glob("*.toml")):
        for row in tomllib.loads(path.read_text())["case"]:
            yield path.stem, row


def rejection(name, row):
    """Return the error of a row, with all others."""
    try:
        ChatFormat.load(name).validate(
            row["text"].replace(HERE, ""),
            row.get("kind", "assistant_turn"),
            TOOLS if row.get("tools", True) else None,
            all_errors=True,
            **{"prompt": "", **row.get("options", {})},
        )
    except Rejected as error:
        return error
    raise AssertionError(f"{name}, {row['id']}: accepted")


def written(row):
    """Return a row as TOML."""
    lines = ["[[case]]"]
    for key in ("id", "kind", "tools", "options", "layer", "text", "error"):
        value = row.get(key)
        if key == "options" and value:
            value = ", ".join(f"{name} = {json.dumps(entry)}" for name, entry in value.items())
            lines.append(f"options = {{ {value} }}")
        elif key in ("text", "error"):
            lines.append(f"{key} = '''\n{value}'''")
        elif value is not None and value != {}:
            lines.append(f"{key} = {json.dumps(value, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"


def main():
    found = {}
    for name, row in rows():
        error = rejection(name, row)
        found.setdefault(name, []).append({**row, "layer": error.layer, "error": str(error)})
    for name, cases in found.items():
        (FOLDER / f"{name}.toml").write_text("\n".join(map(written, cases)))


if __name__ == "__main__":
    main()
