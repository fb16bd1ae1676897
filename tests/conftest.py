"""What many tests share: the embedded model and tokenizer, the real vocabularies, where the data lies."""

from __future__ import annotations

import atexit
import gc
import importlib.util
import os
import random
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import settings

from constrained import work

# Machines are shared, so no example has a deadline; where CI is set, the same examples come each time.
settings.register_profile("any machine", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "any machine")

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("MPLBACKEND", "Agg")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected, and what was imported for it, stays to the end: no search for garbage looks at it again.

    Searches are rarer than by default: with tables of formats and vocabularies alive, they took a seventh of the suite.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        gc.set_threshold(20_000, 10, 20)


# Files that load every format, and files that generate with a model.
OF_FORMATS = {f"test_{name}" for name in (
    "benchmarks", "formats", "cli", "round_trips", "read", "render", "forged", "stream", "choices", "rejections",
    "specifications", "tool_prompt", "lark_printed", "recognise", "tagged", "default_model", "reading_time",
    "fuzz_inputs", "definitions", "unique_texts", "ledger",
)}
OF_MODELS = {"test_notebooks", "test_docs", "test_readme", "test_cli_files", "test_stored", "test_vocabulary_files"}


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Of a test that is ``sampled(n)`` one row in n stays, of each test others; `make exhaustive` runs the rest.

    The first of two workers begins with the formats, the second with the models, each with what only it imports.
    Workers begin with a half of the tests each, and whoever is done takes from the end of the other's: there lie those
    that need neither.
    """
    rows = defaultdict[Any, list[pytest.Item]](list)
    for item in items:
        if (mark := item.get_closest_marker("sampled")) is not None:
            rows[item.function, mark.args[0]].append(item)
    for (_, count), found in rows.items():
        for item in sorted(found, key=lambda item: crc32(item.nodeid.encode()))[-(-len(found) // count) :]:
            item.add_marker(pytest.mark.exhaustive)
    yield
    formats = [item for item in items if item.path.stem in OF_FORMATS]
    models = [item for item in items if item.path.parent.name == "hosts" or item.path.stem in OF_MODELS]
    grouped = {*formats, *models}
    others = [item for item in items if item not in grouped]
    before = max(len(items) // 2 - len(formats), 0)
    items[:] = [*formats, *others[:before], *models, *others[before:]]


def pytest_unconfigure() -> None:
    """A worker that has told its results does not search for garbage once more."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        gc.freeze()


@atexit.register
def leave() -> None:
    """A worker that has told its results leaves its memory as it is: to take a gigabyte apart takes seconds.

    Elsewhere libraries report what outlives the interpreter, so that nothing may be kept from them.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        os._exit(0)
    gc.unfreeze()


@pytest.fixture(autouse=True)
def nobody_counts_on():
    """Whatever a call met, it gives the thread's budget back: the next one would pay for it."""
    yield
    left = work.current()
    work.thread.budget = None
    assert left is None, f"a budget of {left.limit} units still counts, {left.left} left"


@pytest.fixture(autouse=True)
def same_draws():
    """Draw for each test what it draws alone: what a model samples depends on no test before it."""
    random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """The embedded model is so small that a second thread only waits for the first."""
    if importlib.util.find_spec("torch"):
        import torch

        torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_tokenizer():
    pytest.importorskip("transformers")
    from constrained.default_model import load_tokenizer

    return load_tokenizer()


@pytest.fixture(scope="session")
def tiny_model(tiny_tokenizer):
    pytest.importorskip("torch")
    from constrained.default_model import WIDTH, load

    model, _ = load()
    assert model.config.vocab_size == WIDTH
    return model


@pytest.fixture(scope="session")
def tiny_vocabulary(tiny_tokenizer):
    from constrained.default_model import WIDTH

    from constrained import Vocabulary

    return Vocabulary.from_tokenizer(tiny_tokenizer, size=WIDTH)


@pytest.fixture(scope="session")
def llama3_path() -> Path:
    """Return the Llama 3 tokenizer file inside the llama-models package; importing that package would need much more.
    """
    return _data_file("llama_models", "llama3", "tokenizer.model")


@pytest.fixture(scope="session")
def mistral_path() -> Path:
    return _data_file("mistral_common", "data", "mistral_instruct_tokenizer_240323.model.v3")


def _data_file(package: str, *parts: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{package} is not installed")
    path = Path(spec.submodule_search_locations[0], *parts)
    if not path.exists():
        pytest.skip(f"{path.name} is not in the installed {package}")
    return path
