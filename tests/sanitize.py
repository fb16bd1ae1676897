"""Builds the compiled kernel with AddressSanitizer and UndefinedBehaviorSanitizer in a scratch folder, and runs walks,
faults and fuzzing on it.

    python tests/sanitize.py [--count 20000] [--folder build/sanitized]

The package is copied, so the installed kernel stays as it is.  The first report ends the run: exit code 1 and the
report.  Needs gcc with libasan (on Debian it comes with gcc), numpy and Cython.  Cost: three minutes to build, one to
run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FLAGS = "-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-sanitize=alignment"
SCRIPT = """
import sys
import tempfile
from pathlib import Path
from constrained.benchmarks import faults
from constrained.engine.kernel import _kernel
from constrained.engine.tokens import _tokens
assert {folder!r} in _kernel.__file__ and {folder!r} in _tokens.__file__, _kernel.__file__
for case in faults.CASES:
    print("faults", case, faults.check(case, "memory", every=3), faults.check(case, "interrupt", every=211), flush=True)
sys.path.insert(0, {tests!r})
from fuzz.operations import Operations
from fuzz.vocabularies import Files
with tempfile.TemporaryDirectory() as folder:
    files = Files(Path(folder), 5)
    files.run({count} // 50)
    print("damaged vocabularies", dict(files.found), flush=True)
operations = Operations(5)
operations.run({count})
print("operations", operations.done, flush=True)
"""


def build(folder: Path) -> None:
    """Copy the package and build its kernel with both sanitizers."""
    # as they are installed
    for name, inside in (("constrained", ""), ("grammars", "constrained"), ("benchmarks", "constrained")):
        target = folder / inside / name
        shutil.copytree(
            ROOT / name, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__")
        )
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    (folder / "setup.py").write_text(
        setup.replace('"-O2", "-g0"', '"-O1"').replace("self.warn(", "raise SystemExit("), encoding="utf-8"
    )
    flags = {"CFLAGS": FLAGS, "LDFLAGS": "-fsanitize=address,undefined"}
    subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace", "--force"],
        cwd=folder,
        env={**os.environ, **flags},
        check=True,
    )


def run(folder: Path, count: int) -> int:
    """Run everything under the sanitizers; return the exit code."""
    runtime = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    script = folder / "run.py"
    script.write_text(SCRIPT.format(folder=str(folder), tests=str(ROOT / "tests"), count=count), encoding="utf-8")
    settings = {
        "LD_PRELOAD": runtime,
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(folder),
    }
    return subprocess.run(
        [sys.executable, "-P", str(script)], cwd=folder, env={**os.environ, **settings}, check=False
    ).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=20_000, help="operations of the fuzzer")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "sanitized")
    parser.add_argument("--built", action="store_true", help="the folder holds a build already")
    options = parser.parse_args()
    folder = options.folder.resolve()
    if not options.built:
        folder.mkdir(parents=True, exist_ok=True)
        build(folder)
    return run(folder, options.count)


if __name__ == "__main__":
    sys.exit(main())
