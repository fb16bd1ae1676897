"""SGLang: a grammar backend, ``--grammar-backend constrained``.

The entry point ``sglang.srt.plugins`` (see pyproject.toml) calls `register` in every process of the server.  Requests
say ``json_schema``, ``regex`` or ``ebnf``; the last is a Lark text here, as it is with the server's llguidance backend
where that begins with a rule ``start:``. Schemas are read practically, see `schema.profiles`.  Texts that a model
thinks before its answer are the server's business only where it wraps the backend, which it does not do for registered
ones: say ``think, then answer`` in the grammar.

Tested in tests/hosts/test_sglang.py, against the package's own base classes and registry where it is installed (no
server), else against its published interface.
"""

from __future__ import annotations

from typing import Any

import torch
from sglang.srt.constrained.base_grammar_backend import (
    BaseGrammarBackend,
    BaseGrammarObject,
    GrammarRow,
    InvalidGrammarObject,
    register_grammar_backend,
)

from constrained.engine.tokens.vocabulary import Vocabulary
from constrained.errors import ConstrainedError
from constrained.integrations.masks import forbid
from constrained.integrations.servers import Cursor, Requests, log_end

NAME = "constrained"


class RequestGrammar(BaseGrammarObject):  # type: ignore[misc]  # a host's class
    """The grammar of one request; kept without tokens as the pattern of those that ask the same."""

    def __init__(self, cursor: Cursor, words: int) -> None:
        super().__init__()
        self._cursor, self._words = cursor, words

    def accept_token(self, token: int) -> None:
        """Read a token.

        Raises: ValueError: it may not come here.
        """
        if not self._cursor.accept([token]):
            raise ValueError(f"token {token} is not in the grammar of the request")
        self.finished = self._cursor.finished

    def rollback(self, k: int) -> None:
        """Take back the last tokens."""
        self._cursor.rollback(k)
        self.finished = self._cursor.finished

    def is_terminated(self) -> bool:
        """Say whether a stop token has been read."""
        return self._cursor.finished

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> torch.Tensor:
        """Return room for masks, on the host, all of whose tokens are allowed."""
        return torch.full((batch_size, self._words), -1, dtype=torch.int32)

    def fill_vocab_mask(self, vocab_mask: torch.Tensor, idx: int) -> None:
        """Write the mask of the next token."""
        self._cursor.fill(vocab_mask, idx)

    @staticmethod
    def fill_vocab_mask_batched(entries: list[GrammarRow], vocab_mask: torch.Tensor) -> None:
        """Write the masks of some rows."""
        for entry in entries:
            entry.grammar.fill_vocab_mask(vocab_mask, entry.row)

    @staticmethod
    def reset_vocab_mask(vocab_mask: torch.Tensor) -> None:
        """Allow everything."""
        vocab_mask.fill_(-1)

    @staticmethod
    def move_vocab_mask(vocab_mask: torch.Tensor, device: Any) -> torch.Tensor:
        """Return the masks on a device."""
        return vocab_mask.to(device, non_blocking=True)

    @staticmethod
    def apply_vocab_mask(logits: torch.Tensor, vocab_mask: torch.Tensor) -> None:
        """Set the logits of what is not allowed to -inf, in place."""
        forbid(logits, vocab_mask)

    def copy(self) -> RequestGrammar:
        """Return an independent grammar at the same place."""
        twin = RequestGrammar(self._cursor.copy(), self._words)
        twin.finished, twin.grammar_stats = self.finished, self.grammar_stats
        return twin

    def try_jump_forward(self, tokenizer: Any) -> tuple[list[int], str] | None:
        """Return tokens that have to come, None where there are none."""
        forced = self._cursor.forced()
        return (forced, "") if forced else None

    def jump_forward_str_state(self, helper: tuple[list[int], str]) -> tuple[str, int]:
        """Return the text to jump over: none, tokens are enough."""
        return "", -1

    def jump_and_retokenize(self, old_output_ids: list[int], new_output_ids: list[int], next_state: int) -> None:
        """Go on behind other tokens for the same text."""
        same = next(
            (at for at, (old, new) in enumerate(zip(old_output_ids, new_output_ids)) if old != new),
            min(len(old_output_ids), len(new_output_ids)),
        )
        self.rollback(len(old_output_ids) - same)
        for token in new_output_ids[same:]:
            self.accept_token(token)


class GrammarBackend(BaseGrammarBackend):  # type: ignore[misc]  # a host's class
    """Makes the grammars of a server's requests; the base keeps them, by what was asked for."""

    def __init__(self, tokenizer: Any, vocab_size: int, eos_token_ids: Any = None) -> None:
        super().__init__()
        self._requests = Requests(Vocabulary.from_tokenizer(tokenizer, size=vocab_size))
        self._stop = [eos_token_ids] if isinstance(eos_token_ids, int) else eos_token_ids

    def _made(self, kind: str, text: str) -> BaseGrammarObject:
        try:
            constraint = self._requests.constraint({kind: text})
            return RequestGrammar(Cursor(constraint.matcher(), self._stop), self._requests.vocabulary.words)
        except Exception as error:  # whatever it is, the server goes on
            if not isinstance(error, ConstrainedError):
                log_end(error)
            return InvalidGrammarObject(str(error))

    def dispatch_json(self, key_string: str) -> BaseGrammarObject:
        """Return the grammar of a JSON Schema; ``$$ANY$$`` stands for any object."""
        return self._made("json", '{"type": "object"}' if key_string == "$$ANY$$" else key_string)

    def dispatch_regex(self, key_string: str) -> BaseGrammarObject:
        """Return the grammar of a regular expression."""
        return self._made("regex", key_string)

    def dispatch_ebnf(self, key_string: str) -> BaseGrammarObject:
        """Return the grammar of a Lark text."""
        return self._made("lark", key_string)

    def dispatch_structural_tag(self, key_string: str) -> BaseGrammarObject:
        """Refuse: it is another engine's notation."""
        return InvalidGrammarObject("structural tags are XGrammar's notation; say it as Lark, in ebnf")


def register() -> None:
    """Make the backend known to the server, under the name "constrained"."""
    from sglang.srt.arg_groups import choices

    register_grammar_backend(
        NAME,
        lambda server_args, tokenizer, vocab_size, eos_token_ids: GrammarBackend(tokenizer, vocab_size, eos_token_ids),
    )
    if NAME not in choices.GRAMMAR_BACKEND_CHOICES:
        choices.add_grammar_backend_choices([NAME])
