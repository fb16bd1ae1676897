"""Execute the notebooks: every source NN_*.py becomes NN_*.ipynb beside it, with its outputs and plots.

    python notebooks/execute.py [01 05]
"""

import sys
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
SECONDS = 600  # a cell on a busy machine; on a quiet one all seven take about a minute

for source in sorted(HERE.glob("[0-9]*.py")):
    if len(sys.argv) == 1 or source.stem[:2] in sys.argv[1:]:
        notebook = jupytext.read(source)
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        for number, cell in enumerate(notebook.cells):
            cell["id"] = f"cell-{number}"  # the same on every run
        where = {"metadata": {"path": str(HERE)}}
        NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources=where).execute()
        for cell in notebook.cells:
            cell.metadata.pop("execution", None)  # times of day
            if "outputs" in cell:  # warnings of libraries, with paths of this machine
                cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        nbformat.write(notebook, source.with_suffix(".ipynb"))
        print(f"{source.stem}: {sum(len(cell.get('outputs', [])) for cell in notebook.cells)} outputs")
