"""Sample mutants with a seed, ask the tests that enter the changed function, list the survivors."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import NoReturn

from .mutate import Mutant, count_sites, nth
from .reach import FOLDER

ROOT = Path(__file__).parents[2]
PACKAGES = ("schema", "regex", "grammar", "formats", "engine")
CARRIED = (
    "constrained",
    "tests",
    "grammars",
    "benchmarks",
    "notebooks",
    "README.md",
    "pyproject.toml",
    "constraints.txt",
)
# They look at the tree itself, which a mutant's scratch copy is not.
LEFT_OUT = tuple(
    f"tests/test_{name}.py"
    for name in ("layers", "readme", "notebooks", "mutation", "docs", "architecture", "unicode_tables")
)
COLLECTING = 0.004  # seconds a test
# modules of tests that are asked first, and second: to collect a module's tests takes longer than to run a few
STAGES = (1, 3)


@dataclass(frozen=True, slots=True)
class Reach:
    """Test → seconds; (file, first line of a function) → tests that enter it; file → tests that enter anything of it;
    module → its tests.
    """

    seconds: dict[str, float]
    functions: dict[tuple[str, int], list[str]]
    files: dict[str, list[str]]
    sizes: Counter[str]

    def tests(self, file: str, function: int, seconds: float) -> list[str]:
        """Return the tests to ask, the fastest first, as many as fit into the time; at module level those of the file.
        """
        own = self.functions.get((file, function), [])
        near = [test for test in self.files.get(file, []) if test not in set(own)]
        chosen, total = [], 0.0
        for test in [*sorted(own, key=self.seconds.__getitem__), *sorted(near, key=self.seconds.__getitem__)]:
            total += self.seconds[test]
            if total > seconds and chosen:
                break
            chosen.append(test)
        return chosen


def in_stages(tests: list[str], reach: Reach) -> list[list[str]]:
    """Return the tests in the order in which they are asked, by module: first where many tests cost little, to collect
    and to run.
    """
    modules: dict[str, list[str]] = {}
    for test in tests:
        modules.setdefault(test.partition("::")[0], []).append(test)

    def worth(module: str) -> float:
        cost = 1 + COLLECTING * reach.sizes[module] + sum(map(reach.seconds.__getitem__, modules[module]))
        return len(modules[module]) ** 0.5 / cost

    groups = iter([modules[module] for module in sorted(modules, key=worth, reverse=True)])
    stages = [[test for group in islice(groups, size) for test in group] for size in (*STAGES, len(modules))]
    return [stage for stage in stages if stage]


def read_reach(path: Path) -> Reach:
    """Return what `reach` has written."""
    seconds, functions, files = {}, {}, {}
    for test, (taken, entered) in json.loads(path.read_text(encoding="utf-8")).items():
        if test.startswith(LEFT_OUT):
            continue
        seconds[test] = taken
        for file, line in entered:
            functions.setdefault((file, line), []).append(test)
        for file in {file for file, _ in entered}:
            files.setdefault(file, []).append(test)
    return Reach(seconds, functions, files, Counter(test.partition("::")[0] for test in seconds))


def record_reach(out: Path, jobs: int) -> None:
    """Run the suite once and write which test enters which function."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "tests.mutation.reach",
            "-n",
            str(jobs),
            "--dist",
            "worksteal",
        ]
        command += [f"--ignore={path}" for path in LEFT_OUT]
        subprocess.run(command, cwd=ROOT, env={**os.environ, FOLDER: folder}, check=False)
        found: dict[str, list] = {}
        for path in sorted(Path(folder).glob("*.json")):
            found.update(json.loads(path.read_text(encoding="utf-8")))
    out.write_text(json.dumps(found), encoding="utf-8")
    print(f"{len(found)} tests")


def sample(count: int, seed: int) -> list[tuple[str, Mutant]]:
    """Return (file, mutant) pairs, uniformly over all places of the packages that can be changed."""
    files = sorted(path for package in PACKAGES for path in (ROOT / "constrained" / package).rglob("*.py"))
    sources = {str(path.relative_to(ROOT / "constrained")): path.read_text(encoding="utf-8") for path in files}
    places = [(file, number) for file, source in sources.items() for number in range(count_sites(source))]
    chosen: list[tuple[str, Mutant]] = []
    for file, number in random.Random(seed).sample(places, len(places)):
        mutant = nth(sources[file], number)
        if mutant is not None:
            chosen.append((file, mutant))
        if len(chosen) == count:
            break
    return chosen


def make_copy(folder: Path) -> Path:
    """Return a copy of the tree in which a mutant may live, laid out as installed."""
    for name in CARRIED:
        source = ROOT / name
        ignored = shutil.ignore_patterns("__pycache__", "*.c", "*.egg-info", ".pytest_cache")
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=ignored)
        elif source.exists():
            shutil.copy(source, folder / name)
    for name in ("grammars", "benchmarks"):
        (folder / "constrained" / name).symlink_to(folder / name)
    warm_up = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), str(folder / "tests")))}
    # which compiles everything once
    subprocess.run(warm_up, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=False)
    return folder


def is_killed(folder: Path, file: str, mutant: Mutant, stages: list[list[str]], seconds: float) -> str | None:
    """Return what noticed the mutant: the failing test, or "time"; None if nothing did."""
    target = folder / "constrained" / file
    original, times = target.read_text(encoding="utf-8"), target.stat()
    target.write_text(mutant.source, encoding="utf-8")
    try:
        return next((noticed for stage in stages if (noticed := _fails(folder, stage, seconds))), None)
    finally:
        target.write_text(original, encoding="utf-8")
        os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))  # so that what was compiled of it is valid again


def _fails(folder: Path, tests: list[str], seconds: float) -> str | None:
    """Return the first test that fails, "time", or None.

    The tests run in a fork of this process, which has imported the large libraries but nothing of the package.
    """
    output, arguments = folder / "output.txt", folder / "arguments.txt"
    arguments.write_text("\n".join(tests), encoding="utf-8")
    child = os.fork()
    if not child:
        _ask_tests(folder, output)
    code = _wait(child, seconds)
    if code is None:
        return "time"
    if code == 0:
        return None
    lines = output.read_text(encoding="utf-8", errors="replace").splitlines()
    if missing := next((line for line in lines if line.startswith("ERROR: not found")), None):
        raise RuntimeError(f"the map of reach is of other tests, record it again: {missing}")
    return next((line for line in lines if line.startswith(("FAILED", "ERROR"))), (lines or [f"exit {code}"])[-1])


def _ask_tests(folder: Path, output: Path) -> NoReturn:
    code = 70
    try:
        with output.open("w") as out:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
        os.chdir(folder)
        sys.path[:0] = [str(folder), str(folder / "tests")]
        sys.dont_write_bytecode = True
        import pytest

        code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--no-header", f"@{folder / 'arguments.txt'}"]))
    finally:
        os._exit(code)


def _wait(child: int, seconds: float) -> int | None:
    """Return the exit code of a process, None if it took longer and was ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def load_libraries() -> None:
    """Import what every child would import anyway."""
    for name in (
        "numpy",
        "lark",
        "jsonschema",
        "referencing",
        "hypothesis",
        "pytest",
        "torch",
        "transformers",
        "tokenizers",
        "typer",
        "rich",
    ):
        with suppress(ImportError):
            importlib.import_module(name)


def run(arguments: argparse.Namespace) -> int:
    """Ask the tests about a sample of mutants; return how many survive."""
    reach = read_reach(arguments.reach)
    load_libraries()
    chosen = sample(arguments.count, arguments.seed)
    chosen = chosen[arguments.first : arguments.first + arguments.only if arguments.only else None]
    survivors = []
    with tempfile.TemporaryDirectory() as scratch:
        folders: SimpleQueue[Path] = SimpleQueue()
        for number in range(arguments.jobs):
            Path(scratch, str(number)).mkdir()
            folders.put(make_copy(Path(scratch, str(number))))

        def ask(pair: tuple[str, Mutant]) -> str | None:
            file, mutant = pair
            tests = reach.tests(file, mutant.function, arguments.seconds)
            folder = folders.get()
            try:
                return (
                    is_killed(folder, file, mutant, in_stages(tests, reach), 60 + 6 * arguments.seconds)
                    if tests
                    else None
                )
            finally:
                folders.put(folder)

        with ThreadPoolExecutor(arguments.jobs) as pool:
            for number, ((file, mutant), noticed) in enumerate(zip(chosen, pool.map(ask, chosen)), 1):
                row = {"file": file, "line": mutant.line, "change": mutant.change, "noticed": noticed}
                print(
                    f"{number:4} {'killed  ' if noticed else 'SURVIVED'} {file}:{mutant.line} {mutant.change}",
                    flush=True,
                )
                if not noticed:
                    survivors.append(row)
                if arguments.out:
                    with arguments.out.open("a", encoding="utf-8") as out:
                        out.write(json.dumps(row, ensure_ascii=False) + "\n")
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} killed ({1 - len(survivors) / max(1, len(chosen)):.1%})")
    return len(survivors)


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    reach = commands.add_parser("reach", help="record which tests enter which functions")
    reach.add_argument("--out", type=Path, default=Path("reach.json"))
    reach.add_argument("--jobs", type=int, default=2)
    runner = commands.add_parser("run", help="sample mutants and ask the tests")
    runner.add_argument("--reach", type=Path, default=Path("reach.json"))
    runner.add_argument("--count", type=int, default=300)
    runner.add_argument("--seed", type=int, default=1)
    runner.add_argument("--first", type=int, default=0, help="begin at this one of the sample")
    runner.add_argument("--only", type=int, default=0, help="as many; 0: all")
    runner.add_argument("--seconds", type=float, default=60, help="of tests for a mutant, as `reach` timed them")
    runner.add_argument("--jobs", type=int, default=2)
    runner.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "reach":
        record_reach(arguments.out, arguments.jobs)
        return 0
    return min(1, run(arguments))


if __name__ == "__main__":
    sys.exit(main())
