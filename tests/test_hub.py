"""Misspelt ids of models are errors before anything heavy is imported; the hub is a server of this test."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

import pytest
from constrained.cli.hub import ask_hub

import constrained as c

_STATUS = {"/api/models/is/there": 200, "/api/models/is/broken": 500}


@contextmanager
def _hub(monkeypatch, folder, *, answers=True):
    done = Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):  # the library's name
            if not answers:
                done.wait()
            self.send_response(_STATUS.get(self.path, 404))
            self.end_headers()

        def log_message(self, *args):
            """Be silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}/")
        monkeypatch.setenv("HF_HOME", str(folder))
        for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "HF_HUB_CACHE"):
            monkeypatch.delenv(name, raising=False)
        try:
            yield
        finally:
            done.set()
            server.shutdown()


def test_what_begins_with_a_point_is_a_folder():
    with pytest.raises(c.ConstrainedError, match=r"because: there is no such folder"):
        ask_hub("./missing")


def test_the_hub_is_asked_whether_there_is_a_model(monkeypatch, tmp_path):
    with _hub(monkeypatch, tmp_path):
        ask_hub("is/there")
        with pytest.raises(c.ConstrainedError, match=r"cannot load 'not/there'\n.*has no such public model"):
            ask_hub("not/there")
        with pytest.raises(c.ConstrainedError, match="HTTP Error 500"):
            ask_hub("is/broken")
        with pytest.raises(c.ConstrainedError, match="no such folder, and no id"):
            ask_hub("./some folder/model")
        (tmp_path / "hub" / "models--not--there").mkdir(parents=True)
        ask_hub("not/there")  # its files are on this machine


def test_a_hub_that_does_not_answer_is_not_waited_for(monkeypatch, tmp_path):
    with _hub(monkeypatch, tmp_path, answers=False), pytest.raises(c.ConstrainedError, match=r"not answered|timed out"):
        ask_hub("is/there")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(c.ConstrainedError, match="cannot ask http"):
        ask_hub("is/there")


def test_nothing_heavy_is_imported_for_a_misspelt_id(monkeypatch, tmp_path):
    script = (
        "import sys; from constrained.cli import run; code = run(['generate', '--choice', 'yes', '--model', 'no/ne'])\n"
        "sys.exit(f'{code} {sorted({\"torch\", \"transformers\", \"huggingface_hub\"} & set(sys.modules))}')"
    )
    with _hub(monkeypatch, tmp_path):
        said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=os.environ, check=False)
    assert said.stderr.splitlines()[-1] == "2 []"
