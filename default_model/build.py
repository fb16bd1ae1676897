"""Make `tokenizer.json`: a byte-level BPE trained on `corpus.txt`, with the special tokens of every chat format.

    python -m constrained.default_model.build

The result is the same on every run; a test compares it with the shipped file.  All 256 bytes are tokens, as in Llama
3's vocabulary, and merges may cross quotes and braces (``"}}``, ``": "``), as they do in real vocabularies: tokens that
end one thing and begin the next are what masks get wrong.
"""

from __future__ import annotations

from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = Path(__file__).parent
SIZE = 1300  # byte and merged tokens
# Letters, up to three digits, punctuation, line ends, blanks: the split of Llama 3 in short.
SPLIT = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"

# In the order of their ids.  A name that a format uses and that is missing here fails a test.
SPECIAL = (
    "<|pad|>", "<|begin_of_text|>", "<|end_of_text|>", "<|endoftext|>", "<|finetune_right_pad_id|>",
    "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>",  # Llama 3.1
    "<|im_start|>", "<|im_end|>",  # ChatML and its relatives
    "<|action_start|>", "<|action_end|>", "<|interpreter|>", "<|plugin|>",  # InternLM2
    "[UNUSED_TOKEN_141]", "[UNUSED_TOKEN_142]", "[UNUSED_TOKEN_143]", "[UNUSED_TOKEN_144]", "[UNUSED_TOKEN_145]",
    "[UNUSED_TOKEN_146]",
    "[gMASK]", "sop", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>",  # ChatGLM3
    "[BOS]", "[EOS]", "[PAD]", "<|function_list|>", "<|function_call|>", "<|function_output|>",  # OpenChatML
    "<|reflect|>", "<|start_reflect|>", "<|end_reflect|>", "<|introspect|>", "<|start_introspect|>",
    "<|end_introspect|>",
    "<|reason|>", "<|start_reason|>", "<|end_reason|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>",
    "<|file_separator|>",
    "<s>", "</s>", "<unk>",
)  # fmt: skip

# Of today's models; their ids follow all others, so that those stay what they were.
LATER = (
    "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>", "<｜tool▁outputs▁begin｜>",
    "<｜tool▁outputs▁end｜>",
    "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>", "｜DSML｜",  # DeepSeek
    "[INST]", "[/INST]", "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
    # Mistral
    "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]", "[THINK]", "[/THINK]", "[MODEL_SETTINGS]",
    "[/MODEL_SETTINGS]",
    "<BOS_TOKEN>", "<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|SYSTEM_TOKEN|>", "<|USER_TOKEN|>",
    "<|CHATBOT_TOKEN|>",
    "<|START_THINKING|>", "<|END_THINKING|>", "<|START_TEXT|>", "<|END_TEXT|>", "<|START_RESPONSE|>",
    "<|END_RESPONSE|>",
    "<|START_ACTION|>", "<|END_ACTION|>", "<|START_TOOL_RESULT|>", "<|END_TOOL_RESULT|>",  # Cohere
    "<|im_user|>", "<|im_assistant|>", "<|im_system|>", "<|im_middle|>", "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    # Kimi
    "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>", "<|open|>", "<|close|>", "<|sep|>",
    "<|end_of_msg|>",
    # gpt-oss
    "<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>", "<|startoftext|>",
    "<|tool|>", "<|/tool|>", "<|tool_call|>", "<|/tool_call|>", "<|tool_response|>",  # Phi
    # EXAONE, Granite
    "[|system|]", "[|user|]", "[|assistant|]", "[|tool|]", "[|endofturn|]", "<|start_of_role|>", "<|end_of_role|>",
    # GLM, MiniMax, Seed
    "<sop>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "]~!b[", "]~b]", "[e~[", "<seed:bos>",
    "<seed:eos>",
    # Gemma
    "<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", "<|turn>",
    "<turn|>", '<|"|>',
    "<bos>", "<eos>", "<|tool>", "<tool|>", "<|think|>",
    # LFM2, Llama 4, Jamba
    "<|tool_call_start|>", "<|tool_response_start|>", "<|tool_response_end|>", "<|header_start|>", "<|header_end|>",
    "<|python_start|>", "<|python_end|>", "<|eom|>", "<|eot|>", "<|bom|>",
    # Laguna, Ling, Hunyuan, MiniMax M1
    "〈|EOS|〉", "<system>", "</system>", "<user>", "</user>", "<assistant>", "</assistant>", "<role>", "</role>",
    "<|role_end|>", "<｜hy_begin_of_sentence:opensource｜>", "<｜hy_User:opensource｜>",
    "<｜hy_Assistant:opensource｜>",
    "<｜reasoning_mode:opensource｜>", "<｜hy_eos:opensource｜>", "<begin_of_document>", "<beginning_of_sentence>",
    "<end_of_sentence>",
    # FunctionGemma
    "<start_of_turn>", "<end_of_turn>", "<start_function_call>", "<end_function_call>", "<start_function_response>",
    "<end_function_response>", "<start_function_declaration>", "<end_function_declaration>", "<escape>",
    "<|role_sep|>", "<|message_sep|>",  # GigaChat
    "<|endofturn|>", "<|stop|>",  # HyperCLOVA X
    "<|message_system|>", "<|message_user|>", "<|message_model|>", "<|message_tool|>", "<|end_message|>",
    "<|content_text|>", "<|content_thinking|>", "<|content_xml|>", "<|content_invoke_tool_json|>",
    "<|content_model_end_sampling|>",  # Inkling
    "<|iquest_system|>", "<|iquest_developer|>", "<|iquest_user|>", "<|iquest_assistant|>", "<|iquest_tool|>",
    "<|iquest_end|>", "<|ifm|begin_of_text|>", "<|ifm|im_start|>", "<|ifm|im_end|>",  # IQuest, K2 Horizon
    "<|role_sep|>\n", "<|message_sep|>\n\n",  # GigaChat 3
    "<|begin|>", "<|content|>", "<|flush|>", "<|calls|>", "<|tool_calls|>", "<|tool_call:begin|>", "<|tool_call:name|>",
    "<|tool_call:args|>", "<|tool_call:end|>", "<|tool_response:begin|>", "<|tool_response:name|>",
    "<|tool_response:result|>", "<|tool_response:end|>",  # Solar Open
    "<|im:start|>", "<|im:content|>", "<|im:end|>", "<|think:start|>", "<|think:end|>", "<|tool_call:start|>",
    "<|tool_arg:start|>", "<|tool_arg:value|>", "<|tool_arg:end|>", "<|tool_response:start|>",  # Solar Open 2
    "<|endofsystem|>", "<|endofuser|>", "<|endofassistant|>",  # dots 3
)  # fmt: skip

# Text that is one token without being special, as in Qwen: the bytes are what a grammar sees.
PLAIN = ("<tool_call>", "</tool_call>", "<think>", "</think>")


def build() -> Tokenizer:
    """Return the tokenizer; deterministic."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator((HERE / "corpus.txt").read_text(encoding="utf-8").split("\n\n"), trainer)
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIAL])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in PLAIN])
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in LATER])
    return tokenizer


if __name__ == "__main__":
    build().save(str(HERE / "tokenizer.json"))
    print(f"wrote {HERE / 'tokenizer.json'}")
