"""The site: `make docs`, or ``sphinx-build -W docs build/docs``."""

import inspect
import re

import constrained

project, author, release = "constrained", "the maintainers", constrained.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["_build"]
html_theme, html_title = "furo", "constrained"
html_static_path = ["_static"]
html_css_files, html_show_copyright = ["wide.css"], False  # tables and drawings scroll inside the page
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
    """Docstrings here are plain text: paragraphs, what parameters mean, `names`, indented or prompted examples."""
    known = _parameters(obj) if what in ("function", "method") else {}
    paragraphs, lines[:] = "\n".join(lines).strip("\n").split("\n\n"), []
    for paragraph in paragraphs:
        if re.match(">>>|  ", paragraph) or "\n  " in paragraph:
            lines += ["::", "", *("    " + row for row in paragraph.split("\n")), ""]
            continue
        paragraph = re.sub(MEANT, lambda found: _meant(found, known), paragraph).strip()
        rows = re.sub(r"\n(?![\w, ]+: )", " ", paragraph).split("\n")
        lines += [*("| " + _escaped(row.strip()) for row in rows if row.strip()), ""]
    if known:
        lines += [".. list-table::", "   :header-rows: 1", "", "   * - Parameter", "     - Meaning"]
        for (name, kind), meaning in known.values():
            lines += [f"   * - | {name}", f"       | {kind}", f"     - {meaning}"]
        lines.append("")


# "name: what it means", at the start of a line or of a sentence, up to the next one or to "Raises: …" and its like.
START = r"(?:^|(?<=\. )|(?<=\.  ))"
MEANT = re.compile(rf"{START}((?:\w+, )*[a-z]\w*): ((?s:.+?))(?=\s*(?:\Z|{START}(?:\w+, )*\w+: ))", re.MULTILINE)


def _meant(found, known):
    """Put what a docstring says of parameters into their rows; return what is left of the text."""
    names = found[1].split(", ")
    if not set(names) <= known.keys():
        return found[0]
    for name in names:
        known[name][1] = _escaped(" ".join(found[2].split()))
    return ""


def _parameters(obj):
    """Return parameter → its row: (name, type and default), meaning."""
    try:
        found = inspect.signature(obj).parameters.values()
    except (TypeError, ValueError):
        return {}
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return {one.name: [(f"``{stars.get(one.kind, '')}{one.name}``", _typed(one)), ""]
            for one in found if one.name not in ("self", "cls")}


def _typed(one):
    default = "" if one.default is one.empty else f" = ``{one.default!r}``"
    return ("" if one.annotation is one.empty else f"``{one.annotation}``") + default


def _escaped(row):
    parts = re.split(r"(``[^`]+``|`[^`]+`)", row)
    return "".join(
        f"``{part.strip('`')}``" if part.startswith("`") else re.sub(r"([\\*_|`])", r"\\\1", part) for part in parts
    )


def setup(app):
    app.connect("source-read", _without_links_to_sources)
    app.connect("autodoc-process-docstring", _as_written)
