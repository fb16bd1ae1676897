"""Rows in this process and in actors of Ray: the same results, in order, also when an actor is killed in the middle,
and after a break.
"""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path

import pytest

import constrained as c
from constrained.integrations.ray_data import run, run_into, unread

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray[data] is not installed")
WORKER = f"{__name__}:{{}}".format
ROWS = [{"id": at, "schema": {"enum": [at, "x"]}, "text": str(at if at % 3 else "y")} for at in range(40)]
ROWS[7] = unread(8, ValueError("no row"))


def judging():
    def judge(row):
        if row["id"] == 5:
            raise ValueError("row five is wrong")
        matcher = c.compile(
            c.Grammar.from_json_schema(row["schema"]), c.Vocabulary([bytes([byte]) for byte in range(256)])
        ).matcher()
        for byte in row["text"].encode():
            matcher.advance(byte)
        return {"id": row["id"], "ends": matcher.is_accepting(), "process": None}

    return judge


def dying(folder):
    """A worker whose process ends in the middle of the rows, once."""
    inner, died = judging(), Path(folder) / "died"

    def work(row):
        if row["id"] == 20 and not died.exists():
            died.write_text("")
            os._exit(1)
        return inner(row)

    return work


@pytest.fixture(scope="module")
def expected():
    found = list(run(ROWS, WORKER("judging")))
    assert [result.get("id") for result in found if "error" not in result] == [
        at for at in range(40) if at % 3 and at not in (5, 7)
    ]
    assert found[5] == {"id": 5, "error": {"message": "row five is wrong", "type": "ValueError"}}
    assert found[7] == ROWS[7]
    assert "not allowed" in found[0]["error"]["message"] or found[0]["error"]["type"] == "Rejected"
    return found


def test_a_run_goes_on_where_it_was_broken_off(tmp_path, expected):
    path = tmp_path / "out.jsonl"
    begun = run_into(path, ROWS, WORKER("judging"))
    assert [next(begun) for _ in range(7)] == expected[:7]
    begun.close()
    with path.open("a") as file:
        file.write('{"row": "cut')
    assert list(run_into(path, ROWS, WORKER("judging"))) == expected
    assert len(path.read_text().splitlines()) == 40
    before = path.read_bytes()
    assert list(run_into(path, ROWS, WORKER("judging"))) == expected
    assert path.read_bytes() == before
    with pytest.raises(c.ConstrainedError, match="holds other results at line 1"):
        list(run_into(path, ROWS[1:], WORKER("judging")))


def test_wrong_use_is_named(tmp_path):
    with pytest.raises(c.ConstrainedError, match="-1 actors"):
        list(run(ROWS, WORKER("judging"), actors=-1))
    with pytest.raises(c.ConstrainedError, match="cannot write"):
        list(run_into(tmp_path / "none" / "out.jsonl", ROWS, WORKER("judging")))


@needs_ray
@pytest.mark.exhaustive  # Ray's processes take 20 s to begin, on a busy machine 100
def test_actors_find_the_same_and_lose_nothing_when_one_is_killed(tmp_path, expected, monkeypatch):
    import ray

    root = str(Path(__file__).parents[1])
    monkeypatch.setenv("RAY_DATA_DISABLE_PROGRESS_BARS", "1")
    ray.init(
        num_cpus=3, include_dashboard=False, object_store_memory=200 << 20, log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}})
    try:
        assert list(run(ROWS, WORKER("judging"), actors=1)) == expected
        assert list(run_into(tmp_path / "out.jsonl", ROWS, WORKER("dying"), [str(tmp_path)], actors=2)) == expected
        assert (tmp_path / "died").exists()
    finally:
        ray.shutdown()
    lines = [json.loads(line)["result"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert lines == expected
