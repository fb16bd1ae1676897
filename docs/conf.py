"""The site: `make docs`, or ``sphinx-build -W docs build/docs``."""

import re

import constrained

project, author, release = "constrained", "the maintainers", constrained.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["_build"]
html_theme, html_title = "furo", "constrained"
html_static_path = ["_static"]
html_css_files = ["wide.css"]  # tables and code scroll inside the page
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "separated"
nitpicky = False
suppress_warnings = ["misc.highlighting_failure"]  # snippets of Lark and of turns


def _without_links_to_sources(app, name, source):
    """Turn links that leave the site, to files of the checkout, into their words."""
    source[0] = re.sub(r"\[([^\]]+)\]\(\.\./[^)]*\)", r"\1", source[0])


def _as_written(app, what, name, obj, options, lines):
    """Docstrings here are plain text: paragraphs, `names`, indented or prompted examples."""
    paragraphs, lines[:] = "\n".join(lines).strip("\n").split("\n\n"), []
    for paragraph in paragraphs:
        rows = paragraph.split("\n")
        if rows[0].startswith(">>>") or any(row.startswith("  ") for row in rows):
            lines += ["::", "", *("    " + row for row in rows), ""]
        else:
            lines += [*("| " + _escaped(row) for row in rows), ""]


def _escaped(row):
    parts = re.split(r"(``[^`]+``|`[^`]+`)", row)
    return "".join(
        f"``{part.strip('`')}``" if part.startswith("`") else re.sub(r"([\\*_|`])", r"\\\1", part) for part in parts
    )


def setup(app):
    app.connect("source-read", _without_links_to_sources)
    app.connect("autodoc-process-docstring", _as_written)
