"""What the pages about the architecture and the docstrings of the package name exists, and every folder is in the map."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import constrained

ROOT = Path(__file__).parents[1]
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}
PACKAGE = Path(constrained.__file__).parent
BESIDE = [PACKAGE.parent / name for name in ("export", "notations", "deriving", "rendering", "python_types", "research", "default_model", "serve", "conform", "cli")]
SOURCES = {
    ".".join(("constrained", *path.relative_to(folder.parent if folder in BESIDE else folder).with_suffix("").parts))
    .removesuffix(".__init__"): path.read_text("utf-8")
    for folder in (PACKAGE, *BESIDE)
    for path in sorted(folder.rglob("*.py*"))
    if path.suffix in (".py", ".pyx")
}
PROSE = re.compile(r'"""(.*?)"""|#([^\n]*)', re.DOTALL)


@pytest.mark.parametrize(("page", "link"), sorted(
    (page, link) for page, text in PAGES.items() for link in set(re.findall(r"\]\((?!https?:)([^)#]+)\)", text))))
def test_links_lead_somewhere(page, link):
    assert (ROOT / "docs" / link).exists()
    said = re.findall(rf"\[`([\w/]+\.\w+)`\]\({re.escape(link)}\)", PAGES[page])
    assert {name.rpartition("/")[2] for name in said} <= {link.rpartition("/")[2]}


def test_the_map_is_the_tree():
    mapped = set(
        re.findall(r"\]\(\.\./(?:constrained/)?([\w/]+)\) ?[|,]", PAGES["architecture.md"].partition("## Where is")[0])
    )
    folders = {str(path.parent.relative_to(PACKAGE)) for path in PACKAGE.rglob("__init__.py")} - {".", "benchmarks"}
    assert mapped - {"constrained"} == folders | {folder.name for folder in BESIDE}


@pytest.mark.parametrize(
    "line",
    [line for line in PAGES["architecture.md"].partition("## The tree")[2].split("\n") if line.startswith("| [")],
)
def test_named_modules_are_in_their_folder(line):
    folder = ROOT / re.search(r"\(\.\./([\w/]+)\)", line)[1]
    stems = {path.stem for path in folder.rglob("*.p[xy]*")} | {path.name for path in folder.iterdir() if path.is_dir()}
    said = set(re.findall(r"`(_?[a-z][a-z_]+)`", line.partition("|")[2].partition("|")[2]))
    assert said <= stems | {"repeat"}, said - stems


@pytest.mark.parametrize("row", [line for line in PAGES["architecture.md"].split("\n") if line.startswith("| …")])
def test_answers_are_found_in_the_files_they_name(row):
    for path, name in re.findall(r"\((\.\./[\w/.]+)\) `(\w+)`", row):
        assert re.search(rf"\b{name}\b", (ROOT / "docs" / path).read_text(encoding="utf-8"))


def test_no_walk_of_data_enters_more_than_forty_functions():
    """In a process of its own, as the tests before it may leave something to be made again."""
    pytest.importorskip("torch")
    printed = subprocess.run([sys.executable, ROOT / "tools" / "walks.py"], capture_output=True, text=True, check=True).stdout
    counted = {name: int(count) for name, count in re.findall(r"(.*): (\d+) functions", printed)}
    assert len(counted) == 6 and {name for name, count in counted.items() if count > 40} == set()


@cache
def _classes() -> dict[str, set[str]]:
    """Return of each module the classes that it defines."""
    return {module: set(re.findall(r"^(?:cdef )?class (\w+)", text, re.MULTILINE)) for module, text in SOURCES.items()}


@cache
def _defined(name: str) -> list[str]:
    """Return the sources of the modules that a dotted name ends, or of those with a class of that name."""
    modules = [text for module, text in SOURCES.items() if f".{module}".endswith(f".{name}")]
    return modules or [SOURCES[module] for module, classes in _classes().items() if name in classes]


def _is_stale(reference: str, code: str) -> bool:
    """Say whether a dotted name in prose leads nowhere: neither to a module or class here, nor to the standard library,
    nor to a variable of the code beside it.
    """
    head, _, rest = reference.partition(".")
    if head in sys.stdlib_module_names:
        return not hasattr(importlib.import_module(head), rest.partition(".")[0]) and not _defined(head)
    for at in [place.start() for place in re.finditer(r"\.|$", reference)][::-1]:
        if sources := _defined(reference[:at]):
            following = reference[at + 1 :].partition(".")[0]
            return not any(re.search(rf"\b{following}\b", text) for text in sources)
    return not re.search(rf"\b{head}\b", code)


@pytest.mark.parametrize("module", SOURCES)
def test_names_in_docstrings_and_comments_exist(module):
    text = SOURCES[module]
    prose = [first or second for first, second in PROSE.findall(text)]
    named = {name for part in prose for name in re.findall(r"(?<!`)`([A-Za-z_]\w*(?:\.\w+)+)`(?!`)", part)}
    files = {name for name in named if name.rpartition(".")[2] in ("json", "py", "toml", "txt")}
    elsewhere = {"Tekkenizer.from_file", "GenerationMixin._sample"}  # of mistral-common and transformers
    code = PROSE.sub("", text)
    assert [name for name in sorted(named - files - elsewhere) if _is_stale(name, code)] == []


@cache
def _words() -> set[str]:
    """Return the words of all code, and the names of its modules and folders."""
    paths = [path for folder in (PACKAGE, *BESIDE, ROOT / "tests", ROOT / "benchmarks") for path in folder.rglob("*.p[yx]*")]
    code = [PROSE.sub("", path.read_text("utf-8")) for path in paths if path.suffix != ".pyc"]
    return {word for text in code for word in re.findall(r"\w+", text)} | {part for path in paths for part in (path.stem, path.parent.name)}


ELSEWHERE = {  # names of other projects, and one of an example
    "ContinuousBatchingManager", "FilePath", "bytes_to_unicode", "convert_tokens_to_string", "load_tiktoken_bpe", "part__NAME",
}  # fmt: skip


def test_plain_names_in_docstrings_comments_and_on_the_page_exist():
    """A grammar's own rules are named as well."""
    rules = {word for path in (ROOT / "grammars").glob("*.*l*") for word in re.findall(r"\w+", path.read_text("utf-8"))}
    prose = {module: [first or second for first, second in PROSE.findall(text)] for module, text in SOURCES.items()}
    prose["docs/architecture.md"] = [re.sub("`B_1`|```", "", PAGES["architecture.md"])]
    named = {(where, name) for where, parts in prose.items() for part in parts for name in re.findall(r"(?<!`)`([A-Za-z_]\w+)`(?!`)", part)}
    assert {(where, name) for where, name in named if name not in _words() | rules | ELSEWHERE} == set()


# Who may name a keyword: its record, its meaning, and whoever writes it.  All others ask `reading.keywords`.
NAMING = {
    "additionalProperties": {
        "schema.reading.keywords", "schema.normal.plans", "schema.normal.objects",
        "python_types", "formats.tools",  # write it
        "schema.conflict", "export.describe", "formats.payload.judge",  # messages
        "schema.limits",  # which keyword is taken out before another
        "serve.playground",  # shows examples
        "schema._content", "formats.binding.calls", "rendering.arguments", "export.declarations",  # of schemas nobody has read
    },
    "contains": {
        "schema.reading.keywords", "schema.normal.plans", "schema.normal.arrays",
        "schema.limits",  # which keyword a message names
    },
    "unevaluatedItems": {"schema.reading.keywords", "schema.normal.plans", "schema.limits"},
}  # fmt: skip


@pytest.mark.parametrize("keyword", NAMING)
def test_one_record_decides(keyword):
    named = {name.removeprefix("constrained.") for name, text in SOURCES.items() if f'"{keyword}"' in PROSE.sub("", text)}
    assert {name for name in named if not name.startswith("benchmarks")} <= NAMING[keyword]
