"""`serve` and `playground`: a server for the clients of OpenAI, and the page to look at grammars with."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Annotated

import typer

from constrained import work
from constrained.errors import needing
from constrained.formats import ChatFormat

from .inputs import FormatOption, ModelOption, check_writable, read_model


def serve(
    model: ModelOption = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: one that is free.")] = 8000,
    host: Annotated[str, typer.Option("--host", help="Address to listen at; 0.0.0.0: of all networks.")] = "127.0.0.1",
    format: FormatOption = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Most tokens of an answer.")] = 4096,
    max_requests: Annotated[int, typer.Option(min=1, help="Most answers under way.")] = 256,
) -> None:
    """Serve a model to the clients of OpenAI, every call and every schema kept; at / is a page to look at it.

    Without --model it is the embedded one, which needs no network.
    """
    with needing("serve", "server"):
        import uvicorn
        from constrained.serve.app import create_app
        from constrained.serve.chat import Limits
    chat_format = ChatFormat.load(format or "hermes") if model is None or format else None
    language_model, tokenizer = read_model(model)
    app = create_app(
        language_model,
        tokenizer,
        name=model or "embedded",
        chat_format=chat_format,
        own_template=model is None,
        limits=Limits(tokens=max_tokens, requests=max_requests),
    )
    config = uvicorn.Config(app, host=host, port=port, log_level="warning")
    with config.bind_socket() as socket:
        address = f"http://{f'[{host}]' if ':' in host else host}:{socket.getsockname()[1]}/"
        typer.echo(f"{address} serves {model or 'the embedded model'}; Ctrl-C ends it", err=True)
        gc.collect()
        gc.freeze()  # what was loaded stays: no search for garbage looks at it again
        work.full_collections.enabled = True
        sys.setswitchinterval(0.001)  # seconds that a compilation keeps a mask waiting; 0.005 without
        uvicorn.Server(config).run(sockets=[socket])
        gc.unfreeze()  # else libraries report at exit that it has leaked


def playground(
    out: Annotated[Path, typer.Option("--out", "-o", help="The file, which a browser opens without a network.")],
) -> None:
    """Write the page to look at grammars with as one file, with examples in place of a server."""
    check_writable(str(out))
    with needing("write the page", "server"):
        from constrained.serve.playground import page, static
    out.write_text(page(static()), encoding="utf-8")
