"""What the README shows works: its example runs, its commands and files exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_examples_run(tmp_path, capsys):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    pytest.importorskip("pydantic")
    example = "\n".join(re.findall(r"```python\n(.*?)```", README, re.DOTALL))
    path = tmp_path / "example.py"
    path.write_text(example, encoding="utf-8")
    exec(compile(example, str(path), "exec"), {"__name__": "__main__"})
    first, second = capsys.readouterr().out.splitlines()
    assert first == "Weather(city='Oslo', unit='celsius')"
    assert second.startswith("[ToolCall(name='get_weather', arguments={'city': ")


@pytest.mark.parametrize("extra", re.findall(r"pip install '([\w.-]*)\[(\w+)\]'", README))
def test_what_is_installed_has_that_name_and_that_extra(extra):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert extra[0] in (".", project["name"])
    assert extra[1] in project["optional-dependencies"]


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\((?!https?:)([^)#]+)\)", README))))
def test_links_lead_somewhere(link):
    assert (ROOT / link).exists()


@pytest.mark.parametrize("target", sorted(set(re.findall(r"^make (\w+)", README, re.MULTILINE))))
def test_make_targets_exist(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`constrained (\w+)", README))))
def test_commands_exist(command):
    pytest.importorskip("typer")
    from constrained.cli.app import app

    assert command in {info.name or info.callback.__name__ for info in app.registered_commands}
