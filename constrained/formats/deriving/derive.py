"""A chat template → a chat format: probed, written as a pair of files, loaded as any pair is, and proved.

What is not proved is not returned.  What the template does and the format does not, or nobody said, stands in `doubts`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from constrained.errors import GrammarError, shown
from constrained.formats.deriving.pair import Pair, pair_of
from constrained.formats.deriving.probed_calls import calls_of, results_of
from constrained.formats.deriving.probed_words import words_of
from constrained.formats.deriving.probes import Probing, Shape, Unexplained
from constrained.formats.deriving.proof import Proof, prove, rare_orders, tells_alike
from constrained.formats.deriving.template import Template, template_of

if TYPE_CHECKING:
    from constrained.formats.load import ChatFormat

Load = Callable[[Path], "ChatFormat"]
CONVERSATIONS = 500
_MOST_SHOWN = 300  # characters of a conversation or a text in an error
_AROUND = 30  # characters shown of a difference
_INSTEAD = "a pair of files of your own, see grammars/README.md, or ChatFormat.for_tokenizer(tokenizer)"


@dataclass(frozen=True, slots=True)
class Derivation:
    """A format, what was proved of it, and what the probes told."""

    format: ChatFormat
    proof: Proof
    shape: Shape


def derive(
    given: Any, load: Load, special: Any = None, stop: Any = None, conversations: int = CONVERSATIONS
) -> Derivation:
    """Return the format of a template, and its proof; load: what reads a format's files; special, stop: as of
    `ChatFormat.from_template`.

    Cost: some 100 probes, and 5 to 20 ms a conversation.
    Raises: GrammarError: a probe is not explained, or a conversation differs; it shows which.
    """
    template = template_of(given, special)
    probing = Probing(template)
    try:
        shape = calls_of(probing, probing.shape())
        shape = probing.optional("tools", probing.optional("results", shape, results_of), words_of)
        pair = pair_of(shape, template, _stop_of(stop))
        stripped = probing.stripped(shape)
    except Unexplained as error:
        raise _refused(template, error.because, error.messages) from error
    template = probing.template
    chat = _loaded(pair, load)
    kept = replace(shape, words=shape.words if shape.words and tells_alike(chat, template, shape) else None)
    kept = replace(kept, closed=shape.closed if _goes_on(chat, shape.closed) else "")
    if kept != shape:
        if kept.words != shape.words:
            probing.doubts["tools"] = "they are told in words that are not derived; here they are the caller's to say"
        if kept.closed != shape.closed:
            because = f"the template ends its prompt in {shape.closed!r} then, and no turn that it prints begins so"
            probing.doubts["thinking switched off"] = because
        shape = kept
        pair = pair_of(shape, template, _stop_of(stop))
        chat = _loaded(pair, load)
    _check_prompt(chat, template, shape)
    markers = (*chat.definition.tokens.values(), *chat.definition.markers)
    proof = prove(chat, template, shape, (markers, probing.odd, stripped), conversations)
    if proof.differences:
        raise _differs(template, proof)
    if proof.alike < conversations // 4:
        raise _refused(template, f"of {conversations} random conversations it prints {conversations - proof.refused}")
    doubts = {**probing.doubts, **rare_orders(chat, template, shape), **_unsaid(template, chat)}
    if proof.refused:
        doubts["conversations"] = f"the template refuses {proof.refused} of {conversations} random ones"
    if proof.escaped:
        doubts["escapes in arguments"] = "here strings escape signs that the template prints, the same values"
    return Derivation(_loaded(pair.with_doubts(doubts), load), proof, replace(shape, doubts=tuple(doubts.items())))


def _stop_of(stop: Any) -> tuple[str, ...]:
    if stop is None:
        return ()
    listed = (stop,) if isinstance(stop, str) else stop
    if not isinstance(listed, (list, tuple)) or not all(isinstance(text, str) and text for text in listed):
        raise GrammarError(f"stop is {shown(stop)}", instead='a list of tokens: ["<|im_end|>"]')
    return tuple(listed)


def _loaded(pair: Pair, load: Load) -> ChatFormat:
    with TemporaryDirectory() as folder:
        for name, text in pair.files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        return load(Path(folder) / f"{pair.name}.toml")


def _goes_on(chat: ChatFormat, prompt: str) -> bool:
    """Return whether a turn goes on from a prompt."""
    try:
        chat.grammar(prompt=prompt)
    except GrammarError:
        return False
    return True


def _check_prompt(chat: ChatFormat, template: Template, shape: Shape) -> None:
    """Raise `GrammarError` where no turn goes on from what the generation prompt holds."""
    for choice, what in (("none", "answer"), ("required", "call")):
        try:
            chat.grammar(tool_choice=choice, prompt=shape.prompt)
        except GrammarError as error:
            because = f"its generation prompt ends in {shape.prompt!r}, and no {what} that it prints begins so"
            raise _refused(template, because) from error


def _unsaid(template: Template, chat: ChatFormat) -> dict[str, str]:
    """Return what nobody said and is taken for granted."""
    found: dict[str, str] = {}
    if template.taken:
        named = ", ".join(
            f"{name} is {text!r}" for name, text in template.taken.items() if text in chat.tokens.values()
        )
        found |= {"tokens that the template names": f"nobody said what they are; {named}"} if named else {}
    if not template.told:
        found["special tokens"] = (
            f"a template does not say which texts are tokens; taken are {' '.join(chat.tokens.values())}"
        )
    if "strftime_now" in template.source:
        found["the date"] = (
            "the template prints that of the day on which it is rendered; here it is the day of the derivation"
        )
    return found


def _refused(template: Template, because: str, messages: Sequence[Mapping[str, Any]] = ()) -> GrammarError:
    shown_as = json.dumps([*messages], ensure_ascii=False)[:_MOST_SHOWN] if messages else None
    return GrammarError(
        f"cannot derive a chat format from the template {template.name!r}",
        where=None if shown_as is None else f"the probe {shown_as}", because=because, instead=_INSTEAD,
    )  # fmt: skip


def _differs(template: Template, proof: Proof) -> GrammarError:
    """Return the error for a conversation that comes out differently."""
    difference = proof.differences[0]
    mine, theirs = difference.mine, difference.theirs
    at = next((at for at, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs)))
    start = max(at - _AROUND, 0)
    because = f"{len(proof.differences)} random conversations differ"
    if difference.refusal is not None:
        because = f"{because}: {difference.refusal}"
    else:
        because = (
            f"{because}: it prints {theirs[start : at + _AROUND]!r}, and by its probes {mine[start : at + _AROUND]!r}"
        )
    return _refused(template, because, difference.messages)
