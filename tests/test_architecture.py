"""The pages about the architecture name what is there: every folder stands in the map, every place they point to
exists.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import constrained

ROOT = Path(__file__).parents[1]
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}
PACKAGE = Path(constrained.__file__).parent


@pytest.mark.parametrize(("page", "link"), sorted(
    (page, link) for page, text in PAGES.items() for link in set(re.findall(r"\]\((?!https?:)([^)#]+)\)", text))))
def test_links_lead_somewhere(page, link):
    assert (ROOT / "docs" / link).exists()


def test_the_map_is_the_tree():
    mapped = set(
        re.findall(r"\]\(\.\./constrained/([\w/]+)\) ?[|,]", PAGES["architecture.md"].partition("## Where is")[0])
    )
    folders = {str(path.parent.relative_to(PACKAGE)) for path in PACKAGE.rglob("__init__.py")} - {
        ".",
        "benchmarks",
        "grammars",
    }
    assert mapped == folders


@pytest.mark.parametrize(
    "line",
    [line for line in PAGES["architecture.md"].partition("## The tree")[2].split("\n") if line.startswith("| [")],
)
def test_named_modules_are_in_their_folder(line):
    folder = PACKAGE / re.search(r"\(\.\./constrained(/[\w/]+)?\)", line)[0][len("(../constrained"):-1].lstrip("/")
    stems = {path.stem for path in folder.rglob("*.p[xy]*")} | {path.name for path in folder.iterdir() if path.is_dir()}
    said = set(re.findall(r"`(_?[a-z][a-z_]+)`", line.partition("|")[2].partition("|")[2]))
    assert said <= stems | {"repeat"}, said - stems


@pytest.mark.parametrize("row", [line for line in PAGES["architecture.md"].split("\n") if line.startswith("| …")])
def test_answers_are_found_in_the_files_they_name(row):
    for path, name in re.findall(r"\((\.\./[\w/.]+)\) `(\w+)`", row):
        assert re.search(rf"\b{name}\b", (ROOT / "docs" / path).read_text(encoding="utf-8"))
