"""The question whether the hub has a model, asked once and briefly, before anything heavy is imported.

The loader of `transformers` tries for half a minute, file by file, before it believes that there is nothing, and its
libraries take half a second to import.  So the hub is asked with the standard library, in a thread that nobody waits
for longer than `HUB_SECONDS`: looking up a name has no time limit of its own.

Left to the hub's own library: models that need a token, and offline mode.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from urllib.error import HTTPError
from urllib.request import urlopen

from constrained.errors import ConstrainedError

HUB_SECONDS = 1.0  # for the hub to say whether it knows a model
_ID = re.compile(r"[\w-][\w.-]*(/[\w.-]+)?", re.ASCII)  # what begins with a point is a path
_LONGEST = 200  # characters of an id; the hub takes 96


def ask_hub(name: str) -> None:
    """Return if a model may be on this machine or on the hub.

    Raises: ConstrainedError: it is not, or the hub does not answer.
    """
    if len(name) > _LONGEST or not _ID.fullmatch(name):
        raise unloadable(name, FileNotFoundError("there is no such folder, and no id is spelled like that"))
    home = Path(os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface"))
    home = home.expanduser()
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
    if (cache / f"models--{name.replace('/', '--')}").is_dir():
        return
    if "HF_TOKEN" in os.environ or (home / "token").exists() or os.environ.get("HF_HUB_OFFLINE"):
        _ask_by_library(name)
        return
    answers: Queue[Exception | None] = Queue()
    Thread(target=lambda: answers.put(_asked(name)), daemon=True).start()
    try:
        error = answers.get(timeout=HUB_SECONDS)
    except Empty:
        error = TimeoutError(f"the hub has not answered within {HUB_SECONDS:g} s")
    if error is not None:
        raise unloadable(name, error)


def _asked(name: str) -> Exception | None:
    """Return why there is no such model, as far as the hub or the way to it says."""
    hub = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    try:
        urlopen(f"{hub}/api/models/{name}", timeout=HUB_SECONDS).close()  # the user's own endpoint
    except HTTPError as error:
        error.close()
        if error.code in (401, 404):
            return FileNotFoundError(f"{hub} has no such public model")
        return error
    except (OSError, ValueError) as error:
        return OSError(f"cannot ask {hub}: {getattr(error, 'reason', error)}")
    return None


def _ask_by_library(name: str) -> None:
    from huggingface_hub import HfApi

    try:
        HfApi().model_info(name, timeout=HUB_SECONDS)
    except Exception as error:  # of the hub's library or of its HTTP library, whichever that is
        raise unloadable(name, error) from error


def unloadable(name: str, error: Exception) -> ConstrainedError:
    """Return what to raise where a model or a tokenizer cannot be had: the first line of the error says why."""
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return ConstrainedError(
        f"cannot load {name!r}", because=reason, instead="a local folder or the id of a public model"
    )
