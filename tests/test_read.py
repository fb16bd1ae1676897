"""`Simulation`: reads small grammars as Lark does, and by known steps as it does slowly, at every
character.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import json
import tomllib
from decimal import Context, Decimal
from pathlib import Path

import pytest
from constrained.benchmarks.streams import said, total

from constrained import ChatFormat, ConstrainedError, Grammar, GrammarError, LimitExceeded, Rejected
from constrained.formats import Message, ToolCall
from constrained.formats.binding.rules import alternatives_of
from constrained.formats.definition import ENTRY
from constrained.formats.payload.json_text import JsonReader, whole_json
from constrained.formats.payload.judge import compact
from constrained.formats.payload.python_text import KeywordsReader
from constrained.formats.payload.value_reader import Ahead, Fault
from constrained.formats.read.inputs import split_text
from constrained.formats.read.network import build
from constrained.formats.read.question import ask
from constrained.formats.read.reading import with_start_rule
from constrained.formats.read.simulation import END, Simulation, Step, marks_of, numbered
from constrained.formats.streaming import Repaired
from constrained.work import Budget, metered

FOLDER = Path(__file__).with_name("corpus") / "formats"
GRAMMARS = {
    "words": 'start: WORD (" " WORD)*\nWORD: /[ab]+/',
    "text before a tag": 'start: text? tag*\ntext: /((?!<t>)[\\s\\S])+/\ntag: "<t>" /[ab]+/? "<"',
    "nested": 'start: "<" start ">" | "a" start | "b"',
    "ambiguous": 'start: (x | y)* "b"?\nx: "a" | "ab"\ny: "a" "b"?',
    "a repeat of what may be empty": 'start: ("a"? "b"?)+ "<"',
    "two ends": 'start: /a+/ /[ab]+/? "b"',
    "counted": 'start: ("a" "b"?)~2..4 ">"',
}
ALPHABET = "ab<t> "
TOOL = {
    "name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "number"}}},
}  # fmt: skip


class _Slow(Simulation):
    """Reads by the definition, the step of threads with their own marks; looks nothing up and never cuts its stacks."""

    def _cut(self, deep):
        return deep

    def feed(self, text):
        for at in range(len(text)):
            if self.failure is None:
                for ahead in self._readers:
                    ahead.reach(text, at, len(text), self.place - at)
                became = {ahead: ahead.place == self.place and ahead.outcome for ahead in self._readers}
                self._go_on(self._step().by_character(self.threads, text[at], became), 1, None)

    def feed_token(self, name):
        if self.failure is None:
            self._go_on(self._step().by_token(self.threads, name), len(name), name)

    def accepted(self):
        ended = self._step().by_token(self.threads, END) if self.failure is None else []
        return ended[0].trail if ended else False

    def _step(self):
        return Step(self._known, self.place)

    def _go_on(self, threads, size, token):
        if threads:
            shapes, readers, self._trails = numbered(threads)
            self._readers = [reader if isinstance(reader, Ahead) else Ahead(reader) for reader in readers]
            self._set, self.place = self._known.set_of(shapes), self.place + size
        else:
            self._fail(token)


def _simulation(text, *, kind=Simulation, marked=()):
    rules = alternatives_of(Grammar.from_lark(text).rules)
    return kind(build(rules, "start", (), {rule: rule for rule in marked}, {}))


@pytest.mark.parametrize("name", GRAMMARS)
def test_the_machine_accepts_what_lark_does(name):
    lark = pytest.importorskip("lark")
    parser = lark.Lark(GRAMMARS[name], parser="earley", lexer="dynamic_complete")
    rules = alternatives_of(Grammar.from_lark(GRAMMARS[name]).rules)
    network, accepted = build(rules, "start", (), {}, {}), 0
    for size in range(5):
        for word in map("".join, itertools.product(ALPHABET, repeat=size)):
            simulation = Simulation(network)
            simulation.feed(word)
            found = simulation.accepted() is not False
            accepted += found
            if not word:  # lark refuses the empty text before it looks at the rules
                continue
            try:
                parser.parse(word)
            except lark.exceptions.LarkError:
                assert not found, word
            else:
                assert found, word
    assert accepted > 1


def _marks(trail):
    return [mark[:3] for mark in marks_of(trail)]


def _situation(simulation):
    """What a simulation knows, readers of values aside."""
    threads = [
        (thread.node, None if isinstance(thread.state, Ahead) else thread.state, _marks(thread.trail))
        for thread in simulation.threads
    ]
    agreed, place = simulation.agreed()
    return simulation.place, simulation.failure is not None, threads, _marks(agreed), place, _marks(simulation.accepted())


@pytest.mark.parametrize("name", GRAMMARS)
def test_known_steps_are_the_slow_ones(name):
    rules = alternatives_of(Grammar.from_lark(GRAMMARS[name]).rules)
    network = build(rules, "start", (), {rule: rule for rule in rules}, {})
    for word in map("".join, itertools.product(ALPHABET, repeat=4)):
        fast, slow, whole = Simulation(network), _Slow(network), Simulation(network)
        for char in word:
            fast.feed(char)
            slow.feed(char)
            assert _situation(fast) == _situation(slow), word
        whole.feed(word)
        assert _situation(whole) == _situation(slow), word


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ChatFormat.names())
def test_turns_are_read_by_known_steps_as_slowly(name):
    chat = ChatFormat.load(name)
    network = ask(chat.generic, chat.definition, "assistant_turn", {}).network
    rows = sorted((row["text"] for row in tomllib.loads((FOLDER / f"{name}.toml").read_text())["turn"]), key=len)
    for text in (rows[len(rows) // 2], rows[-1][:400]):
        fast, slow = Simulation(network), _Slow(network)
        for piece, is_token in split_text(text, chat.definition).pieces():
            for simulation in (fast, slow):
                (simulation.feed_token if is_token else simulation.feed)(piece)
            assert _situation(fast) == _situation(slow), piece


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ChatFormat.names())
def test_what_comes_again_is_read_as_slowly(name):
    """Many calls, and many messages."""
    chat = ChatFormat.load(name)
    tools = chat.definition.payload and [TOOL]
    call = ToolCall("f", {"a": "x y", "b": 1}) if tools else ToolCall("brave_search", {"query": "x"})
    many = 4 if chat.definition.calls else 1
    texts = [(chat.write(Message("", [call] * many), tools), "assistant_turn")]
    texts += [(text, "conversation") for text in _talks(chat)]
    for text, kind in texts:
        network = ask(chat.generic, chat.definition, kind, {}).network
        _assert_read_as_slowly(network, list(split_text(text, chat.definition).pieces()))


def _assert_read_as_slowly(network, pieces):
    for _ in range(3):
        Simulation(network).read(pieces)
    slow = _Slow(network)
    for count, piece in enumerate(pieces, 1):
        slow.read([piece])
        fast = Simulation(network)
        fast.read(pieces[:count])
        assert _situation(fast) == _situation(slow), piece


# two ways into the depth, one of which calls twice a level, and an end that is only known when all is closed
TWO_WAYS = 'start: x | y\nx: "<" (x | WORD)* ">"\ny: "<" (z | WORD)* ">" "b"\nz: y2\ny2: "<" (z | WORD)* ">"\nWORD: /[ab]+/'


@pytest.mark.parametrize("text", [
    "<" * 70 + "<a>" * 3 + ">" * 20 + "<a>" + "<" * 60 + "a" + ">" * 90, "<" * 200 + "a" + ">" * 200 + "b",
    ("<" * 90 + ">" * 70) * 3 + "<a>" * 30 + ">" * 60 + "b", ("<" * 50 + ">" * 49 + "ab") * 4 + ">" * 4, "<" * 130 + "t",
])  # fmt: skip
@pytest.mark.parametrize("grammar", ['start: "<" (start | WORD)* ">"\nWORD: /[ab]+/', TWO_WAYS])
def test_what_is_nested_deeply_is_read_by_known_steps_as_slowly(grammar, text):
    fast, slow = (_simulation(grammar, kind=kind, marked=("start", "x")) for kind in (Simulation, _Slow))
    for at in range(0, len(text), 5):
        fast.feed(text[at : at + 5])
        slow.feed(text[at : at + 5])
        assert _by_rule(fast) == _by_rule(slow)


def _by_rule(simulation):
    """What a simulation knows, without its nodes."""
    threads = [(thread.node.owner, thread.node.kind, _marks(thread.trail)) for thread in simulation.threads]
    return simulation.place, simulation.failure is None, threads, _marks(simulation.accepted())


@pytest.mark.parametrize("text", [
    '{"a": [1, -0, 0.5, 1E2, 1e+400, 0.00001, true, null, {}], "b": "x\\u00e9\\/\\n"} rest', "{ } ", '{"a": 1, "a": 1}', '{"a": NaN}', '{"a": -Infinity}',
    '{"a": "\\ud83d\\ude00"}', '{"a": "\\ud83d"}', '{"a": "\\udc00\\ud800"}', '{"a": "\x01"}', '{"a": 01}', '{"a": +1}', '{"a": .5}', '{"a": 1.}', '{"a": 1,}', "{'a': 1}",
    '{"a": ' + "9" * 5_000 + "}", '{"a": ' + "9" * 30_000 + "}", '{"a": ' + "[" * 3_000 + "]" * 3_000 + "}", '{"a": {"b": 1, "b": 2}}', "[]", '{"a"', '{"a": tru', '{\u00a0}',
    '{"a": 0.12345678901234567890123, "": [[]]}', '{"a": 1}}', '{"\\u0061": 1, "a": 2}', '{"a": 1 /* */}',
])  # fmt: skip
@pytest.mark.parametrize("lines", [True, False])
def test_a_whole_value_is_read_as_its_characters_are(text, lines):
    def outcome(width):
        reader, at = JsonReader(lines=lines), 0
        try:
            while at < len(text) and not reader.done:
                at = reader.feed(text, at, min(at + width, len(text)))
        except Fault as fault:
            return fault.at, fault.because, fault.pointer
        return at, reader.done, compact(reader.value), reader.expected

    assert outcome(len(text)) == outcome(1)
    whole = whole_json(text, 0, len(text)) if lines and text[:1] == "{" else None
    if whole is not None:
        assert (whole[1], compact(whole[0])) == (outcome(1)[0], outcome(1)[2])


def _talks(chat):
    talk = [Message("Hi", role="user"), Message("Hello!"), Message("Well?", role="user"), Message("x = <y>")]
    with contextlib.suppress(ConstrainedError):
        return [chat.render_text(talk * 3)]
    return []


def test_pieces_of_any_size_are_read_alike():
    chat = ChatFormat.load("hermes")
    network = ask(chat.generic, chat.definition, "assistant_turn", {}).network
    text = 'Let me <see>.\n<tool_call>\n{"name": "f", "arguments": {"a": ["x\\u00e9", -1.5e3, {}]}}\n</tool_call>\n'
    whole = Simulation(network)
    whole.feed(text)
    for size in (1, 2, 3, 7, 30):
        simulation = Simulation(network)
        for at in range(0, len(text), size):
            simulation.feed(text[at : at + size])
        assert _situation(simulation) == _situation(whole)


@pytest.mark.parametrize("name", ["kimi-k2", "qwen2.5", "qwen3-coder", "granite-4.0", "hermes-3"])
@pytest.mark.parametrize("opened", ["", "<think>"], ids=["by the model", "by the prompt"])
def test_a_thought_that_is_not_generated_is_not_lost(name, opened):
    chat = ChatFormat.load(name)
    read = chat.parse(f"<think>Hm.</think>Hello.{chat.stop[0]}".removeprefix(opened), prompt=opened)
    assert (read.content, read.thoughts) == ("Hello.", {"reasoning": "Hm."})
    with pytest.raises(ConstrainedError, match="no such turn"):
        chat.write(read)


LITERALS = [
    "''",
    r"""'\'"'""",
    '"a" "b"',
    """'a'  "b" '''c'''""",
    r"""'\'\'' u'é' R'\n'""",
    "'''a'b''c\\'\\'\\'d''e'''",
    "'''a\nb'''",
    '"""a"b""c\\\\"""',
    '"""\\""""',
    r"r'\''",
    "[1, -0x1F, +0b1_0, 0o17, 1_000, 1., .5e-3, 1E+2]",
    "[0.5, -12, 3e20, 7, -0, 0, -0.0, 1.0,\n2 ,3,  4,]",
    "(1, 2.50, 1e-07, 0.00001)",
    "[[1, 2], 12345678901234567890123, 3, 0x1, 5, '6', 7, 0.1234567891, +8, 1e5]",
    "{'a': (1), 'b': (1,), 'c': ()}",
    "[[], {}, None, True, (False)]",
    r"'\x41\u00e9\U0001f600\101'",
    "('a' 'b', ['c'])",
    "{'a' 'b': '' \"c\"}",
    "[1,# one\n2 # two\r\n,\\\n3, # '\r# ]\n-\\\r\n 4, {'a' # b\n: 'c'\\\n'd' # e\n}]",
]


@pytest.mark.parametrize("literal", LITERALS)
def test_python_literals_are_read_as_python_does(literal):
    expected, text = ast.literal_eval(literal), f"(a={literal} , b = 0)"
    for size in (1, 2, 3, len(text)):
        reader = KeywordsReader()
        for at in range(0, len(text), size):
            piece = text[at : at + size]
            assert reader.feed(piece, 0, len(piece)) == len(piece)
            reader.base += len(piece)
        assert reader.done
        assert json.loads(json.dumps(reader.value, default=float)) == {"a": json.loads(json.dumps(expected)), "b": 0}


@pytest.mark.parametrize(
    "string",
    [r"\ud800\udc00", r"\uDBFF\uDFFF", r"\ud83d\ude00", r"\ud7ff", r"\ue000", r"\u0000\uffff", r"\b\f\n\r\t\/\\\""],
)
def test_escapes_of_json_are_read_as_json_does(string):
    for text in (string, "x" + string + "é"):
        reader, written = JsonReader(), f'{{"a": "{text}"}}'
        assert reader.feed(written, 0, len(written)) == len(written)
        assert reader.value == json.loads(written)


@pytest.mark.parametrize(
    "string",
    [
        r"\udc00",
        r"\ud800",
        r"\ud800\ud800",
        r"\ud800\udbff",
        r"\ud800\ue000",
        r"\udfff",
        r"\ud800x",
        r"\ud800\n",
        r"\x",
    ],
)
def test_halves_of_surrogate_pairs_are_no_characters(string):
    reader, written = JsonReader(), f'{{"a": "{string}"}}'
    with pytest.raises(Fault):
        reader.feed(written, 0, len(written))


def test_a_single_call_is_parsed_by_its_kind():
    call = '{"name": "add", "arguments": {"n": 1}}'
    assert ChatFormat.load("hermes").parse(call, kind="tool_call").arguments == {"n": 1}


@pytest.mark.parametrize("kind", ["", " ", " json", "<|constrain|>json", " <|constrain|>json"])
@pytest.mark.parametrize("name", ["to_json", "json", "查询_天气"])
def test_the_type_of_a_call_is_no_part_of_its_name(name, kind):
    chat, arguments = ChatFormat.load("gpt-oss"), "<|message|>{}<|call|>"
    for text in (f"<|channel|>commentary to=functions.{name}{kind}", f" to=functions.{name}<|channel|>commentary{kind}"):
        assert chat.parse(text + arguments).tool_calls == [ToolCall(name, {})]


def test_queries_of_builtin_tools_mean_what_their_escapes_do():
    call = r"""<|python_tag|>brave_search.call(query="a\"b\\n\u00e9'")<|eom_id|>"""
    assert ChatFormat.load("llama3.1-builtin").parse(call).tool_calls[0].arguments == {"query": "a\"b\\né'"}


LONE_CALLS = {
    "command-r7b": '{"tool_call_id": "3", "tool_name": "f", "parameters": {"a": "x"}}',
    "cohere2moe": '{"tool_call_id": "0", "tool_name": "f", "parameters": {"a": "x"}}',
    "cohere-xml": '<cofl:tool_call id="0" name="f"><cofl:value name="a" type="raw">x</cofl:value></cofl:tool_call>',
    "deepseek-v3.1": '<｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": "x"}<｜tool▁call▁end｜>',
    "deepseek-v3.2": '<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="a" string="true">x</｜DSML｜parameter>\n</｜DSML｜invoke>',
    "functionary-3.2": '>>>f\n{"a": "x"}',
    "gemma-4": '<|tool_call>call:f{a:<|"|>x<|"|>}<tool_call|>',
    "kimi-k2": '<|tool_call_begin|>functions.f:4<|tool_call_argument_begin|>{"a": "x"}<|tool_call_end|>',
    "minimax-m2": '<invoke name="f">\n<parameter name="a">x</parameter>\n</invoke>',
    "minimax-m3": ']<]minimax[>[<invoke name="f">]<]minimax[>[<a>x]<]minimax[>[</a>]<]minimax[>[</invoke>',
    "mistral-v11": '[TOOL_CALLS]f[CALL_ID]call00000[ARGS]{"a": "x"}',
    "mistral-v13": '[TOOL_CALLS]f[ARGS]{"a": "x"}',
    "qwen3-coder": "<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n</function>\n</tool_call>",
}


@pytest.mark.parametrize("name", LONE_CALLS)
def test_a_single_call_as_it_is_generated_is_read_strictly(name):
    chat, text = ChatFormat.load(name), LONE_CALLS[name]
    call = chat.parse(text, [TOOL], kind="tool_call", strict=True)
    assert (call.name, call.arguments) == ("f", {"a": "x"})
    assert call == chat.parse(text, [TOOL], kind="tool_call")
    with pytest.raises(Rejected):
        chat.parse(text + "\n", [TOOL], kind="tool_call", strict=True)


@pytest.mark.parametrize("name", ChatFormat.names())
def test_every_format_has_a_canonical_call(name):
    chat = ChatFormat.load(name)
    assert ENTRY in with_start_rule(chat.generic, chat.definition, "tool_call").rules


LEFT_RECURSIVE = ['start: a "x"\na: start | "y"', 'start: b? start2\nstart2: start "x" | "y"\nb: "z"']


@pytest.mark.parametrize("grammar", LEFT_RECURSIVE)
def test_left_recursion_is_refused(grammar):
    with pytest.raises(GrammarError, match="left-recursive"):
        _simulation(grammar)


def test_a_grammar_that_never_reads_reaches_a_bound():
    from constrained.formats.read.network import Network, NetworkNode, NodeKind, Patterns

    start = NetworkNode(NodeKind.SPLIT, "start")
    text = NetworkNode(NodeKind.TEXT, "start", "x", (NetworkNode(NodeKind.END, "start"),))
    start.then = (NetworkNode(NodeKind.CALL, "start", start, (text,)),)
    with pytest.raises(LimitExceeded, match="before it reads anything"):
        Simulation(Network(start, Patterns()))


def test_long_texts_are_read_within_their_own_work():
    chat, tools = (
        ChatFormat.load("hermes"),
        [{"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}],
    )
    string = (
        '<tool_call>\n{"name": "f", "arguments": {"a": "' + "é word <b> \\n" * 20_000 + '"}}\n</tool_call><|im_end|>'
    )
    assert len(chat.parse(string, tools).tool_calls[0].arguments["a"]) == 240_000
    calls = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>\n' * 2_000
    assert len(chat.parse(calls + "<|im_end|>", tools).tool_calls) == 2_000
    assert len(chat.parse("it is <so> \n" * 20_000 + "<|im_end|>").content) == 240_000


@pytest.mark.parametrize(("digits", "kind"), [(3_999, int), (4_000, int), (20_000, int), (20_001, Decimal)])
def test_integers_of_many_digits_are_read_as_they_stand(digits, kind):
    call = '<tool_call>\n{"name": "f", "arguments": {"a": ' + "9" * digits + "}}\n</tool_call><|im_end|>"
    (read,) = ChatFormat.load("hermes").parse(call).tool_calls
    assert type(read.arguments["a"]) is kind
    assert read.arguments["a"] == Context(prec=30_000).create_decimal("9" * digits)


def test_a_call_takes_a_few_units_to_write():
    chat, call = ChatFormat.load("hermes"), '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>\n'
    message = chat.parse(call * 200 + "<|im_end|>")
    with metered(Budget(200 * 100)):
        assert chat.write(message).count('"f"') == 200


TOLERANT = [
    (name, row)
    for row in tomllib.loads((FOLDER.parent / "tolerant.toml").read_text())["case"]
    for name in row["formats"]
]


def _is_told_at_once(chat, text, message, options):
    for pieces in ([text], list(text)):
        stream = chat.stream_parser(**options)
        events = [event for piece in pieces for event in stream.feed(piece)] + stream.end()
        assert total(events) == said(message)
        repairs = [event.repair for event in events if isinstance(event, Repaired)]
        assert repairs == [repair for repair in message.repairs if repair.rule != "spelling"]


@pytest.mark.parametrize(("name", "row"), TOLERANT, ids=lambda value: value["id"] if isinstance(value, dict) else value)
def test_spellings_that_are_only_read(name, row):
    chat, options = ChatFormat.load(name), {"kind": row.get("kind", "assistant_turn"), "prompt": "", **row.get("options", {})}
    options["tools"] = json.loads(row["tools"]) if "tools" in row else None
    found = chat.parse(row["text"], **options)
    messages = found if isinstance(found, list) else [found]
    calls = messages if options["kind"] == "tool_call" else [call for one in messages for call in one.tool_calls]
    assert [{"name": call.name, "arguments": call.arguments} for call in calls] == json.loads(row.get("calls", "[]"))
    if "content" in row:
        assert messages[0].content == row["content"]
    if "thought" in row:
        assert [*messages[0].thoughts.values()] == [row["thought"]]
    if options["kind"] == "assistant_turn":
        names = [rule for _, rule in messages[0].repairs]
        assert names == row.get("repairs", names) and bool(names) != row.get("canonical", False)
        _is_told_at_once(chat, row["text"], messages[0], {key: options[key] for key in options if key != "kind"})
    if not row.get("canonical"):
        with pytest.raises(Rejected):
            chat.parse(row["text"], strict=True, **options)


# Their calls are an object alone, to some readers.
JSON_IS_A_CALL = ("llama-3.1", "llama-3.2", "llama-3.3", "llama3.1-combined", "llama3.1-json")


@pytest.mark.parametrize("name", [name for name in ChatFormat.names() if name not in JSON_IS_A_CALL])
def test_json_that_no_marker_makes_a_call_is_read_as_any_text(name):
    chat = ChatFormat.load(name)
    for stop in chat.stop:
        found = []
        for text in ("It rains.", '{"name": "ping", "arguments": {}}'):
            try:
                message = chat.parse(text + stop, prompt="")
                assert not message.tool_calls
                found.append(message.content == text)
            except Rejected:
                found.append(None)
        assert found in ([True, True], [None, None]), (stop, found)


# what ends an answer or a call of these is no text of theirs, in quotes or not
UNQUOTED = {"llama3.1-function": True, "llama3.1-combined": True, "openchatml": True, "ernie-4.5": {"</response>"}}


@pytest.mark.parametrize("name", ChatFormat.names())
def test_markers_that_an_answer_quotes_are_text(name):
    chat = ChatFormat.load(name)
    unquoted = UNQUOTED.get(name, set()) if chat.definition.payload is not None else True
    for marker in {*chat.definition.markers, *chat.definition.call_markers} - {*chat.definition.tokens.values()}:
        if unquoted is not True and marker not in unquoted:
            said = f"Use the `{marker}` tag."
            turn = chat.write(Message("XYZ"), prompt="").replace("XYZ", said)
            assert (chat.parse(turn, [TOOL], prompt="").content, chat.parse(turn, prompt="").tool_calls) == (said, [])


@pytest.mark.parametrize("name", ChatFormat.names())
def test_what_is_written_is_what_is_generated(name):
    """Of a message that thinks, where the prompt closes a thought, the whole turn is written: it is one of no prompt."""
    chat = ChatFormat.load(name)
    if chat.definition.payload is None:
        return
    thinks = [dict.fromkeys([*chat.definition.thoughts][:1], "Hm.")] if chat.definition.generates_thoughts else []
    for thoughts in ({}, *thinks):
        message = Message("Yes.", thoughts=thoughts)
        prompt = "" if thoughts and chat.definition.prompt == "think-closed" else None
        try:
            turn = chat.write(message)
        except ConstrainedError:
            continue
        read = chat.parse(turn, strict=True, prompt=prompt)
        assert (read.content, read.thoughts, read.repairs) == (message.content, message.thoughts, ())


@pytest.mark.parametrize("name", ChatFormat.names())
def test_every_call_is_judged_by_its_tool(name):
    """A name, a key and arguments are read inside of a call, so that none passes for complete without its tool."""
    chat = ChatFormat.load(name)
    question = ask(chat.generic, chat.definition, "assistant_turn", {})
    work, seen, outside = [question.entry], set(), []
    while work:
        rule = work.pop()
        meaning = question.slots.meaning(rule)
        if rule in seen or meaning == "tool_call" or meaning in question.slots.builtins:
            continue
        seen.add(rule)
        outside += [rule] if meaning in ("name", "key", "arguments") else []
        work += [symbol.rule for sequence in question.rules.get(rule, ()) for symbol in sequence if hasattr(symbol, "rule")]
    assert not outside
    assert not chat.generic.narrowed


@pytest.mark.parametrize("name", ["chatglm3", "hermes", "internlm2", "llama3.1-function", "openchatml", "pythonic"])
def test_options_that_ask_for_nothing_are_taken_by_every_format(name):
    chat, text = ChatFormat.load(name), "\n<|user|>" if name == "chatglm3" else None
    text = text or next(iter(chat.definition.stops["answer"]))
    neutral = {"interpreter": True, "environment": True, "open_ended": False, "flags": None, "construct": None}
    assert chat.parse(text, **neutral) == chat.parse(text)
    with pytest.raises(GrammarError, match="environment"):
        chat.parse(text, environment=False)


PAD = "<|finetune_right_pad_id|>"


@pytest.mark.parametrize(("name", "turn", "pad"), [
    ("llama3.1-json", "Hi.<|eot_id|>", PAD), ("llama3.1-function", '<function=f>{"a": 1}</function><|eom_id|>', PAD),
    ("llama3.1-builtin", "<|python_tag|>1 + 1<|eom_id|>", PAD), ("qwen3", "Hi.<|im_end|>", "<|endoftext|>"),
])  # fmt: skip
def test_padding_behind_the_stop_is_left_out_and_told(name, turn, pad):
    """Also in a stream, whole and token by token; a strict reader, and any before the stop, takes none."""
    chat = ChatFormat.load(name)
    message = chat.parse(turn + 3 * pad)
    assert message == chat.parse(turn)
    assert message.stop is not None and turn.endswith(message.stop)
    assert any(repair.place == len(turn) for repair in message.repairs) or chat.parse(turn).repairs
    for pieces in ([turn + 3 * pad], [turn, pad, pad, pad]):
        stream = chat.stream_parser()
        events = [event for piece in pieces for event in stream.feed(piece)]
        assert type(events[-1]).__name__ == "Stopped"
        assert stream.end() == [] and stream.close() == message
    for text, strict in ((turn + pad, True), (pad + turn, False), (turn.removesuffix(message.stop) + pad, False)):
        with pytest.raises(Rejected):
            chat.parse(text, strict=strict)


@pytest.mark.parametrize(("name", "turn"), [
    ("llama3.1-function", '<function=f>{"a": 1}</function>'), ("llama-3.1", '{"name": "f", "parameters": {"a": 1}}'),
    ("pythonic", "[f(a=1)]"),
])  # fmt: skip
def test_a_stop_is_told_as_it_was_read(name, turn):
    chat = ChatFormat.load(name)
    assert [chat.parse(turn + stop).stop for stop in ("<|eot_id|>", "<|eom_id|>", "")] == ["<|eot_id|>", "<|eom_id|>", None]
    assert "<|eom_id|>" not in chat.grammar().stops


def test_a_stop_that_ends_a_call_is_told_as_it_was_read():
    chat, turn = ChatFormat.load("gpt-oss"), '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}'
    stream = chat.stream_parser()
    stream.feed(turn)
    assert not [event for event in stream.end() if type(event).__name__ == "Stopped"]
    assert [chat.parse(turn + stop).stop for stop in ("<|call|>", "")] == ["<|call|>", None]


@pytest.mark.parametrize(("name", "changes"), [
    ("internlm2", [('"name": "f",', '"name" "f",'), ('"name": "f",', '"name": "f",,'), ('"name"', "'name'"), ("\n]", "")]),
    ("internlm2-legacy", [('"name": "f",', '"name" "f",'), ("[\n    {", "{")]),
    ("openchatml", [('"type": "function"', '"type": "tool"'), ('"name": "f"', '"name" "f"'), ('"function": {', '"tool": {')]),
])  # fmt: skip
def test_a_list_of_tools_is_json_for_a_strict_reader(name, changes):
    chat = ChatFormat.load(name)
    text = chat.render_text([{"role": "user", "content": "Hi"}], [{"name": "f", "description": "F.", "parameters": {}}])
    chat.validate(text, strict=True)
    if name == "internlm2":  # as the English document has it
        chat.validate(text.replace("}\n]", "},\n]"), strict=True)
    for old, new in changes:
        assert text.replace(old, new) != text
        chat.validate(text.replace(old, new))
        with pytest.raises(Rejected):
            chat.validate(text.replace(old, new), strict=True)


def test_a_user_may_write_the_tags_of_calls():
    chat, said = ChatFormat.load("openchatml"), "What does <tool_call>f</tool_call> mean?"
    text = chat.render_text([{"role": "user", "content": said}])
    chat.validate(text, strict=True)
    assert chat.parse(text, kind="conversation")[0].content == said


def test_tools_that_the_caller_changes_are_other_tools():
    chat, turn = ChatFormat.load("hermes"), '<tool_call>\n{"name": "f", "arguments": {"a": "x"}}\n</tool_call><|im_end|>'
    tools = [json.loads(json.dumps(TOOL))]
    for _ in range(3):  # what comes twice is kept
        assert chat.parse(turn, tools).tool_calls
    tools[0]["parameters"]["properties"]["a"]["type"] = "number"
    with pytest.raises(Rejected, match="schema #/properties/a/type"):
        chat.parse(turn, tools)
    tools[0]["parameters"]["properties"]["a"]["type"] = "string"
    assert chat.parse(turn, tools).tool_calls
