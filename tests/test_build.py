"""The build of setup.py: units are compiled once, and all of them or none are installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[1] / "setup.py"
if not all(find_spec(name) for name in ("Cython", "setuptools", "numpy")) or not shutil.which("cc"):
    pytest.skip("building takes Cython, setuptools, numpy and a C compiler", allow_module_level=True)


def _build(folder: Path) -> list[str]:
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env={"PATH": "/usr/bin:/bin"})
    return sorted(path.name.partition(".")[0] for path in (folder / "constrained").glob("*.so"))


@pytest.fixture
def package(tmp_path):
    shutil.copy(SETUP, tmp_path)
    (tmp_path / "constrained").mkdir()
    for name in ("one", "two"):
        (tmp_path / "constrained" / f"{name}.pyx").write_text(f"cdef int value = 1\nname = '{name}'\n")
    return tmp_path


def test_what_is_compiled_is_not_compiled_again(package):
    """And an archive with its C files takes no Cython."""
    assert _build(package) == ["one", "two"]
    kept = {path: path.stat().st_mtime_ns for path in (package / "build" / "units").rglob("*.so")}
    (package / "constrained" / "two.pyx").write_text("name = 'other'\n")
    assert _build(package) == ["one", "two"]
    assert [path.name.split(".")[1] for path, then in kept.items() if path.stat().st_mtime_ns != then] == ["two"]
    (package / "PKG-INFO").touch()
    for name in ("one", "two"):
        (package / "constrained" / f"{name}.pyx").write_text("this is no Cython")
    shutil.rmtree(package / "build")
    (package / "Cython.py").write_text("raise ImportError('not here')")
    assert _build(package) == ["one", "two"]


def test_one_unit_that_does_not_compile_leaves_all_out(package):
    (package / "constrained" / "two.pyx").write_text('cdef extern from "there_is_no_such.h":\n    int f()\nvalue = f()\n')
    assert _build(package) == []
    (package / "constrained" / "two.pyx").write_text("name = 'mended'\n")
    assert _build(package) == ["one", "two"]
