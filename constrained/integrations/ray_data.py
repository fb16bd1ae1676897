"""Rows through a worker, here or in actors on Ray Data; results in order, in a file that a run goes on from.

A worker is made once for each actor, by a function that is named, not sent: ``"package.module:function"`` and its
arguments.  It takes a row and returns a result, both JSON objects; what it raises is the row's error and nobody else's.
An actor that dies is made again and its rows are done again: results depend on the row alone, so nothing is lost and
nothing comes twice.

A row that could not be read is the error that says so (`unread`): it goes through unworked on and is its own result, so
that a broken line costs nobody else anything, and a run with it goes on as any other.

A file of results holds, line by line, those of the first rows.  To go on is to look how far it came: each line names
its row by a hash, and a file that belongs to other rows is refused; a last line that was cut is written again.

Tested in tests/hosts/test_ray.py, by killing an actor.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from constrained.errors import ConstrainedError

Row = dict[str, Any]
_BATCH = 8  # rows that an actor takes at once: what is lost, and done again, when it dies
_STORE = 200 << 20  # bytes of Ray's object store, where this process starts Ray


def unread(line: int, error: Exception) -> Row:
    """Return the row that stands for a line that could not be read; a worker returns its error."""
    return {"line": line, "error": _told(error)}


def is_unread(row: Row) -> bool:
    """Say whether a row is one of `unread`; no row that is worked on has only these keys."""
    return row.keys() == {"line", "error"}


def _told(error: Exception) -> Row:
    return {"message": str(error) or type(error).__name__, "type": type(error).__name__}


class Worker:
    """What an actor holds: a worker, and how its errors become results."""

    def __init__(self, make: str, arguments: Sequence[Any]) -> None:
        module, _, name = make.partition(":")
        self._work: Callable[[Row], Row] = getattr(importlib.import_module(module), name)(*arguments)

    def result(self, row: Row) -> Row:
        """Return the worker's result, or what went wrong, with the row's id if it has one."""
        if is_unread(row):
            return row
        try:
            return self._work(row)
        except Exception as error:
            return {**({"id": row["id"]} if "id" in row else {}), "error": _told(error)}

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[str]]:
        """As Ray Data calls it: columns of texts."""
        return {"result": [json.dumps(self.result(json.loads(row))) for row in batch["row"]]}


def run(
    rows: Sequence[Row], make: str, arguments: Sequence[Any] = (), *, actors: int = 0, cpus: float = 0.9
) -> Iterator[Row]:
    """Yield the results of all rows, in their order; actors: how many, 0: in this process.

    cpus: that Ray reserves for each actor.
    Raises: ConstrainedError: Ray is not installed.
    """
    if actors < 0:
        raise ConstrainedError(f"{actors} actors", instead="0: in this process, or how many")
    if not actors:
        worker = Worker(make, arguments)
        yield from map(worker.result, rows)
        return
    if not rows:
        return
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ConstrainedError(
            "Ray is not installed", because=str(error), instead="pip install 'constrained-generation[ray]'"
        ) from error
    begun = not ray.is_initialized()
    if begun:
        ray.init(
            num_cpus=max(actors + 1, os.cpu_count() or 1), include_dashboard=False, object_store_memory=_STORE,
            log_to_driver=False,
        )
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    try:
        results = ray.data.from_items(
            [{"row": json.dumps(row)} for row in rows], override_num_blocks=max(1, -(-len(rows) // _BATCH))
        ).map_batches(
            Worker, fn_constructor_args=(make, list(arguments)), batch_size=_BATCH,
            compute=ray.data.ActorPoolStrategy(size=actors), num_cpus=cpus,
        )
        for entry in results.iter_rows():
            yield json.loads(entry["result"])
    finally:
        if begun:
            ray.shutdown()


def run_into(
    path: str | os.PathLike[str], rows: Sequence[Row], make: str, arguments: Sequence[Any] = (), *, actors: int = 0
) -> Iterator[Row]:
    """As `run`, and write each result into a file as it comes; rows whose results are there already are not done again,
    but are yielded too.

    Raises: ConstrainedError: the file belongs to other rows, or cannot be written.
    """
    try:
        done = _done(Path(path), rows)
        with Path(path).open("a", encoding="utf-8") as file:
            yield from (line["result"] for line in done)
            for row, result in zip(
                rows[len(done) :], run(rows[len(done) :], make, arguments, actors=actors), strict=True
            ):
                file.write(json.dumps({"row": _name(row), "result": result}, ensure_ascii=False) + "\n")
                file.flush()
                yield result
    except OSError as error:
        raise ConstrainedError(f"cannot write {path}", because=error.strerror or str(error)) from error


def _done(path: Path, rows: Sequence[Row]) -> list[Row]:
    """Return the lines of a file that are complete, and cut off what follows them."""
    if not path.exists():
        return []
    done: list[Row] = []
    data = path.read_bytes()
    kept = 0
    for line in data.splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break
        try:
            entry = json.loads(line)
            belongs = len(done) < len(rows) and entry["row"] == _name(rows[len(done)])
            belongs = belongs and isinstance(entry.get("result"), dict)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            belongs = False
        if not belongs:
            raise ConstrainedError(
                f"{path} holds other results", where=f"line {len(done) + 1}",
                because="it does not belong to that row of the input",
                instead="another --out, or the input that it was begun with",
            )
        done.append(entry)
        kept += len(line)
    if kept < len(data):
        with path.open("r+b") as file:
            file.truncate(kept)
    return done


def _name(row: Row) -> str:
    """Return what tells a row from others."""
    return hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()[:16]


def results(rows: Iterable[Row], make: str, arguments: Sequence[Any], *, actors: int, out: str | None) -> Iterator[Row]:
    """Yield the results of rows, kept in a file where one is named."""
    listed = list(rows)
    return (
        run(listed, make, arguments, actors=actors)
        if out is None
        else run_into(out, listed, make, arguments, actors=actors)
    )
