"""The pages of docs/ and the docstrings say what is true: their examples run, from top to bottom of a page or docstring;
the site is built in CI by `make docs`.
"""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [path for path in sorted(DOCS.glob("*.md")) if "```python" in path.read_text(encoding="utf-8")]
BESIDE = ("benchmarks", "notations", "deriving", "rendering", "python_types", "research", "default_model", "serve", "conform", "cli")  # the package's, which stand beside it in a checkout
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for folder in ("constrained", *BESIDE)
    for path in sorted((ROOT / folder).rglob("*.py"))
    if re.search(r"^ *>>> ", path.read_text(encoding="utf-8"), re.MULTILINE)
]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_examples_of_a_page_run(path, capsys):
    pytest.importorskip("transformers")
    pytest.importorskip("torch")
    if path.stem == "kernel":
        pytest.importorskip("constrained.engine.kernel._kernel")
    blocks = list(re.finditer(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE))
    text = path.read_text(encoding="utf-8")
    # Blank lines in front of each block: errors name the line of the page.
    source, line = "", 0
    for block in blocks:
        start = text[: block.start(1)].count("\n")
        source += "\n" * (start - line) + block[1]
        line = start + block[1].count("\n")
    exec(compile(source, str(path), "exec", dont_inherit=True), {"__name__": "__main__"})


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_docstrings_run(name, capsys):
    name = f"constrained.{name}" if name.startswith(BESIDE) else name
    module = pytest.importorskip(name, exc_type=ImportError)
    failed, ran = doctest.testmod(module)
    assert ran
    assert not failed, capsys.readouterr().out


def test_nothing_is_left_of_a_merge():
    pages = [*ROOT.glob("*.md"), *DOCS.glob("*.md"), *(ROOT / "grammars").glob("*.[!b]*"), *(ROOT / "tests").rglob("*.md")]
    marks = re.compile("^(<<<<<<< |>>>>>>> )", re.MULTILINE)
    assert [path.name for path in pages if path.is_file() and marks.search(path.read_text(encoding="utf-8"))] == []


def test_every_page_is_in_the_table_of_contents():
    trees = re.findall(r"```\{toctree\}.*?\n\n(.*?)```", (DOCS / "index.md").read_text(encoding="utf-8"), re.DOTALL)
    listed = " ".join(trees).split()
    assert sorted(listed) == sorted(path.stem for path in DOCS.glob("*.md") if path.stem != "index")
