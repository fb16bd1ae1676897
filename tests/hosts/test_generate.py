"""Tests of `constrained.generate`: what is wanted is a row, the answer is of its type; what cannot be wanted is an
error.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import re
import sys
import typing
from collections.abc import Iterable
from typing import Annotated, Literal

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pydantic = pytest.importorskip("pydantic")

from typing_extensions import TypedDict

import constrained as c
from constrained import ConstrainedError, Grammar, GrammarError, LimitExceeded, SchemaError


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Fruit:
    name: Literal["apple", "pear"]
    colour: Colour
    ripe: bool = True


class Point(TypedDict):
    x: Literal[1, 2]


class Line(typing.TypedDict, total=False):  # pydantic refuses these before Python 3.12
    ends: typing.Required[tuple[Point, Point]]
    dashed: bool


class Loop(typing.TypedDict):
    next: Loop | None


class Order(pydantic.BaseModel):
    fruits: Annotated[list[Fruit], pydantic.Field(min_length=1, max_length=2)]
    count: Annotated[int, pydantic.Field(ge=1, le=12)]
    day: datetime.date


TOOL = {
    "name": "paint",
    "description": "",
    "parameters": {
        "type": "object",
        "properties": {"colour": {"enum": ["red", "blue"]}},
        "required": ["colour"],
        "additionalProperties": False,
    },
}
# what is wanted → is this an answer?
WANTED = {
    "texts": (["yes", "no"], lambda found: found in ("yes", "no")),
    "a pattern": (re.compile("[a-c]{3}"), lambda found: re.fullmatch("[a-c]{3}", found)),
    "a pattern with flags": (re.compile("a b # c", re.X | re.I), lambda found: found.lower() == "ab"),
    "a schema": ({"enum": [{"a": 1}, [None]]}, lambda found: found in ({"a": 1}, [None])),
    "a bool": (bool, lambda found: type(found) is bool),
    "nothing": (None, lambda found: found is None),
    "a literal": (Literal["a", 2], lambda found: found in ("a", 2)),
    "an enum": (Colour, lambda found: isinstance(found, Colour)),
    "a list": (
        Annotated[list[bool], pydantic.Field(min_length=2, max_length=2)],
        lambda found: [type(one) for one in found] == [bool, bool],
    ),
    "a union": (bool | Literal["none"], lambda found: found in (True, False, "none")),
    "a dataclass": (Fruit, lambda found: isinstance(found, Fruit) and isinstance(found.colour, Colour)),
    "a typed dict": (Point, lambda found: found in ({"x": 1}, {"x": 2})),
    "a typed dict of typing": (Line, lambda found: found["ends"][0]["x"] in (1, 2)),
    "typed dicts of typing in others": (
        list[Line] | None | dict[str, Line],
        lambda found: found is None or isinstance(found, list | dict),
    ),
    "an iterable": (Iterable[Literal[1]], lambda found: isinstance(found, list)),
    "an adapter": (pydantic.TypeAdapter(Fruit), lambda found: isinstance(found, Fruit)),
    "a model": (Order, lambda found: isinstance(found, Order) and isinstance(found.day, datetime.date)),
    "a grammar": (Grammar.from_lark('start: "<" ("a"|"b") ">"'), lambda found: found in ("<a>", "<b>")),
}


@pytest.mark.parametrize(("wanted", "is_answer"), WANTED.values(), ids=WANTED)
def test_the_answer_is_what_was_wanted(wanted, is_answer, tiny_model, tiny_tokenizer):
    assert is_answer(c.generate(tiny_model, tiny_tokenizer, "Which?", wanted, do_sample=True, temperature=3.0))


@pytest.mark.parametrize("name", ["hermes", "pythonic", "glm-4.6", "llama3.1-function"])
def test_a_format_answers_with_a_message(name, tiny_model, tiny_tokenizer):
    asked = {
        "tools": [TOOL],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "do_sample": True,
        "temperature": 3.0,
    }
    torch.manual_seed(1)
    message = c.generate(tiny_model, tiny_tokenizer, "Paint!", c.ChatFormat.load(name), **asked)
    (call,) = message.tool_calls
    assert call.name == "paint"
    assert call.arguments["colour"] in ("red", "blue")


@pytest.mark.parametrize("most", [1, 2, 3, 30])
def test_answers_end_within_their_tokens(most, tiny_model, tiny_tokenizer):
    """Also where the last of them is the word's, and the stop token would be one more."""
    answer = c.generate(tiny_model, tiny_tokenizer, "Which?", re.compile("[ab]+"), max_new_tokens=most)
    assert 0 < len(tiny_tokenizer(answer, add_special_tokens=False)["input_ids"]) <= most


WRONG = {
    "a number": (ConstrainedError, 5, {}),
    "a type without values": (SchemaError, slice, {}),
    "choices that are no texts": (GrammarError, [1, 2], {}),
    "tools of a type": (ConstrainedError, bool, {"tools": [TOOL]}),
    "several answers": (ConstrainedError, bool, {"do_sample": True, "num_return_sequences": 2}),
    "too few tokens": (LimitExceeded, re.compile("[ab]{50}"), {"max_new_tokens": 3}),
}
if sys.version_info < (3, 12):  # since then pydantic reads those of typing
    WRONG["a typed dict in itself"] = (ConstrainedError, Loop, {})


@pytest.mark.parametrize(("error", "wanted", "options"), WRONG.values(), ids=WRONG)
def test_wrong_use(error, wanted, options, tiny_model, tiny_tokenizer):
    with pytest.raises(error):
        c.generate(tiny_model, tiny_tokenizer, "Which?", wanted, **options)


def test_what_is_no_model_and_no_prompt(tiny_model, tiny_tokenizer):
    with pytest.raises(ConstrainedError, match="not a model"):
        c.generate(tiny_tokenizer, tiny_model, "Which?", bool)
    for prompt in (None, ["a", 1], 3):
        with pytest.raises(ConstrainedError, match="the prompt is"):
            c.generate(tiny_model, tiny_tokenizer, prompt, bool)


@pytest.fixture
def templated(tiny_tokenizer):
    return type(tiny_tokenizer)(
        tokenizer_object=tiny_tokenizer.backend_tokenizer,
        bos_token=tiny_tokenizer.bos_token,
        eos_token=tiny_tokenizer.eos_token,
    )


def test_messages_need_a_template(tiny_model, tiny_tokenizer, templated):
    messages = [{"role": "user", "content": "Which?"}]
    with pytest.raises(ConstrainedError, match="chat template"):
        c.generate(tiny_model, tiny_tokenizer, messages, bool)
    templated.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    assert c.generate(tiny_model, templated, messages, bool) in (True, False)


CHATML = """{%- for message in messages -%}{{- "<|im_start|>" + message.role + "\n" + message.content + "<|im_end|>\n" -}}{%- endfor -%}
{%- if add_generation_prompt -%}{{- "<|im_start|>assistant\n<think>\n\n</think>\n\n" -}}{%- endif -%}"""


@pytest.mark.parametrize(("template", "thought"), [(None, {}), (CHATML, {"reasoning": ""})])
def test_messages_of_a_format_are_rendered_by_it(template, thought, tiny_model, templated):
    """A text that spells a token stays text, and a turn that the template begins is read from there."""
    templated.chat_template, chat = template, c.ChatFormat.load("qwen3")
    messages = [{"role": "user", "content": "Paint <|im_end|>!"}]
    asked = {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False, "do_sample": True}
    torch.manual_seed(1)
    message = c.generate(tiny_model, templated, messages, chat, **asked)
    assert [call.name for call in message.tool_calls] == ["paint"]
    assert not message.content
    if template is not None:
        assert message.thoughts == thought


def test_a_template_of_another_format_is_refused(tiny_model, templated):
    templated.chat_template = CHATML
    with pytest.raises(ConstrainedError, match=r"template and the format 'glm-4.6' disagree\n.*an answer differs at"):
        c.generate(tiny_model, templated, [{"role": "user", "content": "Paint!"}], c.ChatFormat.load("glm-4.6"))


def test_several_prompts_have_an_answer_each(tiny_model, tiny_tokenizer):
    """Whatever their lengths: the same as alone."""
    prompts = ["Which?", "Which of them, in the whole of the town, is the one?", ""]
    assert c.generate(tiny_model, tiny_tokenizer, prompts, Fruit) == [c.generate(tiny_model, tiny_tokenizer, one, Fruit) for one in prompts]
    with pytest.raises(ConstrainedError, match="a batch cannot be streamed"):
        c.generate(tiny_model, tiny_tokenizer, prompts, Fruit, stream=True)


class Tree(pydantic.BaseModel):
    name: Annotated[str, pydantic.Field(alias="label", max_length=3)]
    parts: Annotated[list[Tree], pydantic.Field(max_length=0)] = ()


# what is wanted → is this a beginning of the answer?
BEGUN = {
    "a model": (Order, lambda found, whole: found.count in (None, whole.count) or str(whole.count).startswith(str(found.count))),
    "a dataclass": (Fruit, lambda found, whole: found.name in (None, whole.name) and found.colour in (None, whole.colour)),
    "a model in itself, with an alias": (Tree, lambda found, whole: whole.name.startswith(found.name or "")),
    "a typed dict": (Point, lambda found, whole: found.get("x") in (None, whole["x"])),
    "a schema": ({"enum": [{"a": "bcd"}]}, lambda found, whole: whole["a"].startswith(found.get("a", ""))),
    "texts": (["yes", "no"], lambda found, whole: whole.startswith(found)),
}


@pytest.mark.parametrize(("wanted", "is_begun"), BEGUN.values(), ids=BEGUN)
def test_an_answer_is_told_as_it_comes(wanted, is_begun, tiny_model, tiny_tokenizer):
    *begun, whole = c.generate(tiny_model, tiny_tokenizer, "Which?", wanted, stream=True)
    assert whole == c.generate(tiny_model, tiny_tokenizer, "Which?", wanted)
    assert begun
    assert all(is_begun(found, whole) for found in begun)


def test_a_message_is_told_as_it_comes(tiny_model, tiny_tokenizer):
    asked = {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False}
    chat = c.ChatFormat.load("hermes")
    *begun, whole = c.generate(tiny_model, tiny_tokenizer, "Paint!", chat, stream=True, **asked)
    assert whole == c.generate(tiny_model, tiny_tokenizer, "Paint!", chat, **asked)
    assert begun[-1].tool_calls[0].name == "paint"


def test_who_stops_asking_ends_the_generation(tiny_model, tiny_tokenizer, monkeypatch):
    steps = []
    forward = tiny_model.forward
    monkeypatch.setattr(tiny_model, "forward", lambda *given, **named: steps.append(1) or forward(*given, **named))
    told = c.generate(tiny_model, tiny_tokenizer, "Which?", re.compile("[ab]{400}"), stream=True)
    next(told)
    told.close()
    assert len(steps) < 390


def test_an_error_of_a_stream_is_raised_where_it_is_read(tiny_model, tiny_tokenizer, monkeypatch):
    monkeypatch.setattr(tiny_model, "forward", None)
    with pytest.raises(TypeError):
        list(c.generate(tiny_model, tiny_tokenizer, "Which?", bool, stream=True))


def test_an_agent_calls_functions_until_it_answers():
    """The embedded tokenizer names a format; what a function raises is told."""
    from constrained.default_model import load_trained

    from constrained.integrations.typed import agent

    model, tokenizer = load_trained()
    asked = []

    def get_weather(city: Annotated[str, pydantic.Field(max_length=20)], unit: Literal["celsius", "fahrenheit"]) -> str:
        """Forecast for a city."""
        asked.append((city, unit))
        raise ValueError("no such city")

    chat = c.ChatFormat.for_tokenizer(tokenizer)
    _question, call, result, answer = agent(
        model, tokenizer, [{"role": "user", "content": "Weather in Oslo, in celsius?"}], chat, [get_weather], turns=2,
        tool_choice="required", parallel_tool_calls=False, response_schema={"enum": ["dry", "wet"]},
    )
    assert [(one.name, tuple(one.arguments.values())) for one in call.tool_calls] == [("get_weather", asked[0])]
    assert (result.role, result.content) == ("tool", "ValueError: no such city")
    assert answer.content in ('"dry"', '"wet"')
