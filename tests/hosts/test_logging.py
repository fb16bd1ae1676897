"""What goes wrong while others are served is logged under `constrained`, and nothing is printed by the library."""

from __future__ import annotations

import logging

import pytest

import constrained as c

pytest.importorskip("torch")


def test_a_request_that_costs_too_much_is_logged(tiny_vocabulary, caplog, capsys, monkeypatch):
    from constrained.integrations.servers import Cursor

    def refuse(*_):
        raise c.LimitExceeded("too much work", where="rule start")

    cursor = Cursor(c.compile(c.Grammar.from_regex("(a|b)*c"), tiny_vocabulary).matcher())
    monkeypatch.setattr(c.Matcher, "advance", refuse)
    with caplog.at_level(logging.DEBUG, logger="constrained"):
        assert cursor.accept(tiny_vocabulary.tokenize(b"a"))  # read, as the host has it already, and the end
    assert cursor.finished
    assert [(record.name, record.levelname) for record in caplog.records] == [("constrained.servers", "ERROR")]
    assert "too much work at rule start" in caplog.text
    assert capsys.readouterr().out == ""
