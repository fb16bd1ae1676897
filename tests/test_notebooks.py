"""Every notebook runs from top to bottom, its own assertions are the test; the executed copy beside it is of the same
source.
"""

from __future__ import annotations

import json
import runpy
import warnings
from pathlib import Path

import pytest

pytest.importorskip("transformers")

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("[0-9]*.py"))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, capsys):
    if "matplotlib" in path.read_text(encoding="utf-8"):
        pytest.importorskip("matplotlib")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")
        runpy.run_path(str(path))
    assert capsys.readouterr().out


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_executed_copy_is_of_this_source(path):
    cells = json.loads(path.with_suffix(".ipynb").read_text(encoding="utf-8"))["cells"]
    source = path.read_text(encoding="utf-8")
    for cell in cells:
        lines = "".join(cell["source"]).split("\n")
        assert "\n".join(lines if cell["cell_type"] == "code" else [f"# {line}".rstrip() for line in lines]) in source
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert outputs and not any(output["output_type"] == "error" for output in outputs)
    assert ("plt.show()" in source) == any("image/png" in output.get("data", {}) for output in outputs)
