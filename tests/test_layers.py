"""The shape of the package: imports run one way, modules and functions stay small, importing costs next to nothing."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

import constrained

ROOT = Path(constrained.__file__).parent
BESIDE = ("export", "notations", "deriving", "rendering", "python_types", "research", "default_model", "serve", "conform", "cli")  # in a checkout they stand beside the package
MODULES = sorted(path for folder in (ROOT, *(ROOT.parent / name for name in BESIDE)) for path in folder.rglob("*.py"))
COMPILED = sorted(path for kind in ("pyx", "pxd") for path in ROOT.rglob(f"*.{kind}"))

# From the bottom up.  A module imports from its own line and the lines above it, never from a line below.
LAYERS = (
    ("errors", "tables"),
    ("work", "caches", "interning"),
    ("machine",),
    ("regex", "python_types"),
    ("grammar", "schema", "export", "notations"),
    ("engine", "budget"),
    ("formats", "deriving", "rendering"),
    ("integrations", "research"),
    ("api",),
    ("default_model", "conform"),
    ("benchmarks",),
    ("serve",),
    ("cli",),
)
CORE = ("errors", "tables", "work", "caches", "interning", "machine", "regex", "grammar", "schema", "engine")
CORE_MAY_IMPORT = {"numpy", "referencing", "jsonschema_specifications", "constrained"} | set(
    sys.stdlib_module_names
)
# Readers of tokenizers and types meet other people's objects; they import those packages inside functions, when handed one.
READERS = {"vocabulary", "loaders", "tokenizers", "python_types"}


def _parts(path: Path) -> tuple[str, ...]:
    return path.relative_to(ROOT if path.is_relative_to(ROOT) else ROOT.parent).with_suffix("").parts


def _name(path: Path) -> str:
    return ".".join(_parts(path))


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _imports(
    path: Path, *, top_level_only: bool = False, with_names: bool = False, with_types: bool = False
) -> set[str]:
    """Return absolute dotted names of what a module imports at run time; on request the names of a module beside it,
    which may be modules, and what it imports for types only.
    """
    package = ["constrained", *_parts(path)[:-1]]
    found = set()
    tree = _tree(path)
    for node in _run_time(tree.body) if top_level_only else set(ast.walk(tree)) - (set() if with_types else _type_only(tree)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            prefix = ".".join([*base, *([node.module] if node.module else [])])
            inner = {f"{prefix}.{alias.name}" for alias in node.names}
            found |= (inner if with_names or not node.module else set()) | (
                {prefix} if node.module or with_names else set()
            )
    return found


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _type_only(tree: ast.Module) -> set[ast.AST]:
    return {inner for node in ast.walk(tree) if _is_type_checking(node) for inner in ast.walk(node)}


def _run_time(body: list[ast.stmt]) -> list[ast.AST]:
    """Return what runs when the module is imported: everything outside functions and type-only blocks."""
    found: list[ast.AST] = []
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or _is_type_checking(node):
            continue
        found.append(node)
        for block in ("body", "orelse", "finalbody", "handlers"):
            found += _run_time(getattr(node, block, []))
    return found


def _layer(part: str) -> int | None:
    return next((rank for rank, parts in enumerate(LAYERS) if part in parts), None)


def _by_any_means(path: Path) -> set[str]:
    """Return the absolute names that a module imports: for types only, by strings, and from other compiled units too."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return _imports(path, with_types=True) | set(re.findall(r"import_module\(f?[\"']([\w.]+)", text))
    return set(re.findall(r"^\s*(?:from|cimport|import) (constrained[\w.]*)", text, re.MULTILINE))


@pytest.mark.parametrize("path", [*MODULES, *COMPILED], ids=_name)
def test_imports_run_one_way(path):
    own = _layer(_name(path).split(".")[0])
    for name in _by_any_means(path):
        parts = name.split(".")
        if own is None or parts[0] != "constrained" or len(parts) < 2 or _layer(parts[1]) is None:
            continue
        assert _layer(parts[1]) <= own, f"{_name(path)} imports {name}, which lies above it"


def _reached(start: str, edges: dict[str, set[str]]) -> set[str]:
    """Return what a module imports, directly or not."""
    found, queue = set(), [start]
    for name in queue:
        new = edges[name] - found
        found |= new
        queue += new
    return found


def test_no_module_imports_itself_in_a_circle():
    """Also not inside functions, where the interpreter would not mind."""
    names = {_name(path).removesuffix(".__init__"): path for path in MODULES}
    edges = {}
    for name, path in names.items():
        parts = [part.removeprefix("constrained.") for part in _imports(path, with_names=True)]
        edges[name] = {part for part in parts if part in names and part != name}
    assert {name for name in names if name in _reached(name, edges)} == set()


@pytest.mark.parametrize("path", [path for path in MODULES if _name(path).split(".")[0] in CORE], ids=_name)
def test_the_core_imports_little(path):
    names = _imports(path, top_level_only=not READERS.isdisjoint(_parts(path)))
    assert {name.split(".")[0] for name in names} <= CORE_MAY_IMPORT


# Longer than 50 lines, as each parameter has a line and its meaning another; what they do is short.
MANY_PARAMETERS = {
    "formats.load grammar", "integrations.typed generate", "schema.embedding embed"
}  # fmt: skip


def test_functions_stay_readable():
    long, bodies = set(), []
    for path in MODULES:
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
                if node.end_lineno - node.lineno >= 50:
                    long.add(f"{_name(path)} {node.name}")
                    bodies.append(node.end_lineno - body[0].lineno + 1)
    assert long == MANY_PARAMETERS
    assert max(bodies) <= 40


def test_compiled_functions_stay_readable():
    """Cython has no `ast`: a function goes on for as long as lines are indented more deeply than its first."""
    long = []
    for path in COMPILED:
        lines = path.read_text(encoding="utf-8").split("\n")
        begins = [at for at, line in enumerate(lines) if re.match(r"\s*(cdef|cpdef|def) [^=]*\w\(", line)]
        for at in begins:
            depth, end = len(lines[at]) - len(lines[at].lstrip()), at
            for below in range(at + 1, len(lines)):
                text = lines[below].lstrip()
                if text and len(lines[below]) - len(text) <= depth and not text.startswith(("#", ")")):
                    break
                end = below if text else end
            if end - at >= 50:
                long.append(f"{path.name}:{at + 1}")
    assert long == []


@pytest.mark.parametrize("folder", ["constrained", "benchmarks", *BESIDE])
def test_lines_can_be_read(folder):
    files = [path for kind in ("py", "pyx", "pxd") for path in (ROOT.parent / folder).rglob(f"*.{kind}")]
    wide = {path.name for path in files if max(map(len, path.read_text("utf-8").split("\n"))) > 120}
    assert wide == set()


def test_public_names_are_few_and_exist():
    errors = [
        name
        for name in constrained.__all__
        if isinstance(getattr(constrained, name), type) and issubclass(getattr(constrained, name), Exception)
    ]
    assert len(errors) <= 9, "the whole tree of errors, so that a caller need not know which module raises"
    assert len(constrained.__all__) - len(errors) <= 9, "what a caller does"
    assert all(getattr(constrained, name) is not None for name in constrained.__all__)
    assert set(constrained.__all__) <= set(dir(constrained))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'constrained' has no attribute 'Parser'"):
        _ = constrained.Parser


def _loaded_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_a_module_that_cannot_be_imported_says_why(tmp_path, monkeypatch):
    """A wrong attribute inside it is no missing name of the package, which is all that `from … import` would say."""
    (tmp_path / "broken.py").write_text("import math\nmath.nothing\n")
    monkeypatch.setattr(constrained, "__path__", [*constrained.__path__, str(tmp_path)])
    monkeypatch.setitem(constrained._HOMES, "Broken", "broken")
    with pytest.raises(ImportError, match="'math' has no attribute 'nothing'"):
        from constrained import Broken  # noqa: F401


def test_type_checkers_see_no_attributes_that_are_not_there():
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    assert "__getattr__" not in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


@pytest.mark.parametrize("host", ["torch", "transformers"])
def test_a_missing_host_is_named_with_what_to_install(host, monkeypatch):
    monkeypatch.delitem(sys.modules, "constrained.integrations.transformers", raising=False)
    monkeypatch.setitem(sys.modules, host, None)
    constraint = constrained.compile(["a"], constrained.Vocabulary([b"a"]))
    with pytest.raises(constrained.ConstrainedError, match=f"{host} is not installed\n.*constrained-generation\\[transformers\\]"):
        constraint.logits_processor()


def test_importing_the_package_loads_no_host():
    assert not _loaded_after("import constrained") & {
        "torch",
        "transformers",
        "numpy",
        "lark",
        "jsonschema",
        "typer",
        "rich",
    }


def test_using_the_engine_loads_no_host():
    names = "; ".join(f"constrained.{name}" for name in constrained.__all__)
    assert not _loaded_after(f"import constrained; {names}") & {"torch", "transformers", "tokenizers", "typer", "rich"}


def test_the_first_mask_of_a_format_waits_for_nothing_that_it_does_not_need():
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
    made = f"chat = constrained.ChatFormat.load('hermes'); grammar = chat.grammar([{tool}])"
    names = "{name: 256 + at for at, name in enumerate(chat.definition.tokens)}"
    vocabulary = f"constrained.Vocabulary([bytes([byte]) for byte in range(256)], {names}, [256])"
    loaded = _loaded_after(f"import constrained; {made}; constrained.compile(grammar, {vocabulary}).matcher().accepts(60)")
    assert not loaded & {"jsonschema", "referencing", "lark", "html", "difflib"}


def test_the_build_lists_every_package():
    project = tomllib.loads((ROOT.parent / "pyproject.toml").read_text(encoding="utf-8"))
    folders = {".".join(("constrained", *path.parent.relative_to(ROOT).parts)) for path in ROOT.rglob("__init__.py")}
    beside = {f"constrained.{name}" for name in ("benchmarks", "grammars", *BESIDE)}
    assert set(project["tool"]["setuptools"]["packages"]) == folders | beside


def test_workflows_and_contributors_call_targets_that_there_are():
    if not (ROOT.parent / "Makefile").is_file():
        pytest.skip("installed without the project around it")
    targets = set(re.findall(r"^(\w+):", (ROOT.parent / "Makefile").read_text("utf-8"), re.MULTILINE))
    files = [*ROOT.parent.glob(".github/**/*.*"), ROOT.parent / "CONTRIBUTING.md"]
    assert {found for file in files for found in re.findall(r"\bmake (\w+)", file.read_text("utf-8"))} <= targets
