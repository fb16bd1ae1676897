"""Find which tests enter which functions of the package, and how long each test takes.

A pytest plugin (``-p tests.mutation.reach``, Python 3.12 or newer) that asks the interpreter to report the first entry
of each function in a test, which costs next to nothing.  What a cache answers is not entered again; so the map says
which tests to ask first, never that a test could not notice.  Each process of xdist writes a file of its own.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest

FOLDER = "MUTATION_REACH"  # environment: where the files go

_ROOT = str(Path(__file__).parents[2] / "constrained") + os.sep
_found: dict[str, tuple[float, list[tuple[str, int]]]] = {}  # test → (seconds, [(file, line), …])
_entered: set[tuple[str, int]] = set()
_failed: set[str] = set()


def _enter(code: CodeType, offset: int) -> object:
    if code.co_filename.startswith(_ROOT):
        _entered.add((code.co_filename[len(_ROOT) :], code.co_firstlineno))
    return sys.monitoring.DISABLE  # until the next test


def pytest_configure() -> None:
    tool = sys.monitoring.PROFILER_ID
    sys.monitoring.use_tool_id(tool, "reach")
    sys.monitoring.register_callback(tool, sys.monitoring.events.PY_START, _enter)
    sys.monitoring.set_events(tool, sys.monitoring.events.PY_START)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _entered.clear()
    sys.monitoring.restart_events()
    began = time.perf_counter()
    yield
    if item.nodeid not in _failed:  # what fails without a mutant would kill every one
        _found[item.nodeid] = (round(time.perf_counter() - began, 4), sorted(_entered))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _failed.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    sys.monitoring.set_events(sys.monitoring.PROFILER_ID, 0)
    folder = os.environ.get(FOLDER)
    if folder and _found:
        Path(folder, f"{os.getpid()}.json").write_text(json.dumps(_found), encoding="utf-8")
