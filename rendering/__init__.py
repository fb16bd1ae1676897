"""Messages → text, ids and loss masks in a chat format; installed as `constrained.rendering`.

given          messages as callers have them, and as a format can have them
arguments      the values of a call as its surface writes them
turn           the canonical text of one turn
tool_prompt    the words in which a format tells a model of its tools
conversation   the canonical text of a conversation, and what a model learns of it
render         all of that in a row: text or ids, read back before they are returned
"""
