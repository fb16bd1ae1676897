"""Formats derived from chat templates: small templates of our own, one a family; what cannot be explained is refused.

The oracle is the template itself: Jinja2 prints random conversations, and the derived format prints them alike.
`python -m constrained.benchmarks.derived FOLDER` does the same over a folder of published templates.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import constrained as c
from constrained.errors import GrammarError
from constrained.formats import Message

pytest.importorskip("jinja2")
from constrained.deriving.derive import derive

LOOP = "{%- for m in messages %}"
# A template in parts: what stands before the messages, a turn of calls, and a result.
TAGS = {
    "system": "{%- if messages[0].role != 'system' %}<|im_start|>system\nBe brief.<|im_end|>\n{% endif %}",
    "header": "<|im_start|>{role}\n", "end": "<|im_end|>", "tail": "\n",
    "text": "{{ m.content }}",
    "thought": "{% if m.reasoning_content and loop.index0 > ns.last %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}",
    "call": "{%- if not loop.first or m.content %}{{ '\n' }}{% endif %}"
    "<tool_call>\n{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments | tojson }}}\n</tool_call>",
    "results": "{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}<|im_start|>user{% endif %}"
    "\n<tool_response>\n{{ m.content }}\n</tool_response>"
    "{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}<|im_end|>\n{% endif %}",
    "prompt": "<|im_start|>assistant\n",
}  # fmt: skip
LIST = TAGS | {
    "system": "{{ bos_token }}", "header": "[{role}]", "end": "<|end|>", "tail": "", "thought": "", "prompt": "[assistant]",
    "call": "{%- if loop.first %}[TOOL_CALLS][{% else %}, {% endif %}"
    "{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments | tojson }}, \"id\": \"{{ call.id }}\"}{% if loop.last %}]{% endif %}",
    "results": "[TOOL_RESULTS]{\"content\": {{ m.content | tojson }}, \"call_id\": \"{{ m.tool_call_id }}\"}[/TOOL_RESULTS]",
}  # fmt: skip
PARAMETERS = TAGS | {
    "system": "", "text": "{{ m.content | trim }}",
    "call": "{{ '\n' if not loop.first or m.content else '' }}<call:{{ f.name }}>"
    "{% for k, v in f.arguments | items %}<p name=\"{{ k }}\">{{ v if v is string else v | tojson }}</p>{% endfor %}</call>",
    "results": "<|im_start|>tool\n{{ m.content }}<|im_end|>\n",
}  # fmt: skip
SECTION = TAGS | {
    "system": "", "header": "<|{role}|>", "end": "<|eot|>", "tail": "", "prompt": "<|assistant|>",
    "thought": "{%- if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% else %}</think>{% endif %}",
    "call": "{% if loop.first %}<|calls|>{% endif %}<|call|>{{ f.name }}:{{ loop.index0 }}<|args|>{{ f.arguments | tojson }}"
    "<|uncall|>{% if loop.last %}<|uncalls|>{% endif %}",
    "results": "<|tool|>{{ m.name }}\n{{ m.content }}<|eot|>",
}  # fmt: skip
PYTHON = TAGS | {
    "system": "", "thought": "",
    "call": "{%- if loop.first %}<|calls|>[{% else %}, {% endif %}{{ f.name }}({% for k, v in f.arguments | items %}"
    "{{ k }}={% if v is string %}'{{ v }}'{% else %}{{ v }}{% endif %}{{ ', ' if not loop.last }}{% endfor %})"
    "{% if loop.last %}]<|uncalls|>{% endif %}",
    "results": "<|im_start|>tool\n{{ m.content }}<|im_end|>\n",
}  # fmt: skip


def template(parts):
    """Return a chat template of these parts."""
    said = {role: parts["header"].replace("{role}", role) for role in ("system", "user", "assistant")}
    spoken = "".join(
        f"{{%- elif m.role == '{role}' %}}{said[role]}{parts['text']}{parts['end']}{parts['tail']}"
        for role in ("system", "user")
    )
    return (
        "{%- set ns = namespace(last=-1) %}"
        + LOOP
        + "{%- if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}"
        "{%- endfor %}"
        + parts["system"]
        + LOOP
        + "{%- if m.role == 'tool' %}"
        + parts["results"]
        + spoken
        + "{%- else %}"
        + said["assistant"]
        + parts["thought"]
        + parts["text"]
        + "{%- for call in m.tool_calls or [] %}"
        "{%- set f = call.function %}"
        + parts["call"]
        + "{%- endfor %}"
        + parts["end"]
        + parts["tail"]
        + "{%- endif %}{%- endfor %}{%- if add_generation_prompt %}"
        + parts["prompt"]
        + "{% endif %}"
    )


FAMILIES = {
    "tags": (TAGS, '<tool_call>\n{"name": "f", "arguments": {"city": "Oslo", "n": 2}}\n</tool_call><|im_end|>', "thoughts of earlier turns"),
    "list": (LIST, '[TOOL_CALLS][{"name": "f", "arguments": {"city": "Oslo", "n": 2}, "id": "call00000"}]<|end|>', "special tokens"),
    "parameters": (PARAMETERS, '<call:f><p name="city">Oslo</p><p name="n">2</p></call><|im_end|>', "white space at the ends of texts"),
    "section": (
        SECTION, '</think><|calls|><|call|>f:0<|args|>{"city": "Oslo", "n": 2}<|uncall|><|uncalls|><|eot|>', "special tokens",
    ),
    "python": (PYTHON, "<|calls|>[f(city='Oslo', n=2)]<|uncalls|><|im_end|>", "values of arguments"),
}  # fmt: skip
TOOL = {
    "name": "f",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "n": {"type": "integer"}}},
}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_derived_and_proved(name, tmp_path):
    parts, call, doubt = FAMILIES[name]
    found = derive(template(parts), c.ChatFormat.load, conversations=40)
    proof, chat = found.proof, found.format
    assert (proof.refused, proof.differences) == (0, ())
    assert proof.alike + proof.marked == 40
    assert proof.turns >= 8
    assert doubt in dict(chat.doubts)
    assert chat.write_call("f", {"city": "Oslo", "n": 2}, [TOOL]) == call
    read = chat.parse(call, [TOOL]).tool_calls
    assert [(one.name, one.arguments) for one in read] == [("f", {"city": "Oslo", "n": 2})]
    again = c.ChatFormat.load(chat.save(tmp_path))
    assert again.doubts == chat.doubts
    assert again.grammar([TOOL]).to_lark() == chat.grammar([TOOL]).to_lark()


REFUSED = {
    "spells arguments in its own way": (TAGS | {"call": "<tool_call>{{ f.name }} {{ f.arguments | length }}</tool_call>"}, "'wkey0' is not printed"),
    "ends no turn": (TAGS | {"end": ";", "tail": "\n", "header": "{role}: ", "prompt": "assistant: "}, "no token ends a turn"),
    "counts letters": (TAGS | {"text": "{{ m.content if m.content | length % 7 else m.content | upper }}"}, "random conversations differ"),
    "prints one result of two": (
        TAGS | {"results": "{% if loop.index % 2 %}<|im_start|>tool\n{{ m.content }}<|im_end|>\n{% endif %}"}, None,
    ),
    "writes calls otherwise where there are tools": (
        TAGS | {"call": "{% if tools %}!{% endif %}" + TAGS["call"]},
        "random conversations differ",
    ),
    "begins a turn that never comes": (TAGS | {"prompt": "<|im_start|>assistant\n<plan>"}, "no call that it prints begins so"),
    "raises": (TAGS | {"system": "{{ raise_exception('never') }}"}, "the template refuses it: never"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_probes_cannot_explain_is_refused_or_doubted(name):
    parts, because = REFUSED[name]
    if because is None:
        assert "results" in dict(derive(template(parts), c.ChatFormat.load, conversations=20).format.doubts)
        return
    with pytest.raises(GrammarError, match=re.escape(because)) as refused:
        derive(template(parts), c.ChatFormat.load, conversations=40)
    assert refused.value.instead


def test_a_template_without_calls_is_a_format_of_texts():
    chat = derive(template(TAGS | {"call": ""}), c.ChatFormat.load, conversations=40).format
    assert dict(chat.doubts)["calls"] == "the template prints none; here there are none"
    assert chat.parse("<think>\nMoss.\n</think>\n\nYes.<|im_end|>", strict=True).thoughts == {"reasoning": "Moss."}
    assert chat.write(Message("Yes.")) == "Yes.<|im_end|>"
    asked = [{"role": "user", "content": "Rain?"}]
    assert chat.render_text(asked, add_generation_prompt=True).endswith("<|im_start|>assistant\n")
    for refuse in (chat.grammar, chat.parse):
        with pytest.raises(c.SchemaError, match="it has no calls"):
            refuse(*(["Yes."] if refuse == chat.parse else []), tools=[TOOL])


def test_a_switch_of_the_template_leaves_the_thought_out():
    off = "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}"
    chat = derive(template(TAGS | {"prompt": TAGS["prompt"] + off}), c.ChatFormat.load, conversations=20).format
    assert chat.generation_prompt(thinking=True) == "<think>\n"
    assert chat.generation_prompt(thinking=False) == "<think>\n\n</think>\n\n"


def test_orders_that_the_template_refuses_are_doubts():
    strict = "{%- for m in messages %}{% if m.role == 'user' and not loop.first and messages[loop.index0 - 1].role == 'user' %}"
    strict += "{{ raise_exception('alternate') }}{% endif %}{% endfor %}"
    parts = TAGS | {"system": strict, "prompt": TAGS["prompt"]}
    doubts = dict(derive(template(parts), c.ChatFormat.load, conversations=20).format.doubts)
    assert doubts["two messages by the user in a row"] == "the template refuses this; the format has it"


def test_arguments_of_the_derivation_are_checked():
    for given, special, stop, because in (
        ("{{ x", None, None, "is no template"),
        (template(TAGS), [1], None, "special is"),
        (template(TAGS), None, {}, "stop is"),
        ("nowhere/template.jinja", None, None, "cannot read"),
    ):
        with pytest.raises(c.ConstrainedError, match=because):
            c.ChatFormat.from_template(given, special, stop)


def test_the_command_line_writes_the_pair_and_tells_of_the_proof(capsys, tmp_path):
    pytest.importorskip("typer")
    from constrained.cli import run

    file = tmp_path / "acme.jinja"
    file.write_text(template(SECTION), encoding="utf-8")
    assert run(["derive", str(file), "-o", str(tmp_path / "formats"), "--conversations", "20"]) == 0
    told = capsys.readouterr().out
    assert "of 20 random conversations come out as the template prints them" in told
    assert c.ChatFormat.load(tmp_path / "formats" / "acme.toml").stop == ("<|eot|>",)
    file.write_text("{{ raise_exception('no') }}", encoding="utf-8")
    assert run(["derive", str(file), "-o", str(tmp_path)]) != 0


def test_a_folder_of_templates_becomes_a_table(capsys, tmp_path):
    from constrained.benchmarks.derived import main

    (tmp_path / "one.jinja").write_text(template(LIST), encoding="utf-8")
    (tmp_path / "two.jinja").write_text(template(REFUSED["counts letters"][0]), encoding="utf-8")
    main([str(tmp_path), "--conversations", "20"])
    assert "1 proved, 1 refused" in capsys.readouterr().out


def test_tokens_are_as_the_caller_says():
    parts = TAGS | {"end": "{{ eos_token }}"}
    chat = derive(template(parts), c.ChatFormat.load, {"eos_token": "<|done|>"}, conversations=20).format
    assert chat.stop == ("<|done|>",)
    assert "tokens that the template names" not in dict(chat.doubts)


def test_a_folder_may_hold_a_vocabulary_of_mistral(tmp_path):
    """Its file says which tokens are special; the template names two of them, and no file says which."""
    found = pytest.importorskip("mistral_common")
    (tmp_path / "tekken.json").symlink_to(Path(found.__file__).parent / "data" / "tekken_240718.json")
    parts = TAGS | {"end": "{{ eos_token }}"}
    (tmp_path / "chat_template.jinja").write_text(template(parts), encoding="utf-8")
    chat = derive(tmp_path, c.ChatFormat.load, conversations=20).format
    assert chat.stop == ("</s>",)
    assert "tokens that the template names" not in dict(chat.doubts)
