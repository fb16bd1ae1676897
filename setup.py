"""What pyproject.toml cannot say in a stable way: the compiled extensions, which an installation may do without.

They are translated and compiled in parallel, once: what was compiled is kept in build/units and taken from there until
the source, or a declaration that it uses, is newer.  All or nothing: where one does not compile, none is installed, and
the package runs its plain Python engine and says so.  A source distribution holds the C files, so that it installs
without Cython.

Refused: `-O3`, which takes half as long again to compile; compiling the modules of Python as they are.  With all 84 of
regex/, schema/ and grammar/ compiled by Cython (-O2, 4.6 minutes of a core, 18 MB of libraries) 250 schemas took 0.92
to 1.08 times as long, the median one 1.05 times; attributes, small objects and calls between modules seem to be what
counts, and the interpreter specialises these too.
"""

import os
import shutil
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import numpy
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CompileError, LinkError

PACKAGE = Path("constrained")
FROM_ARCHIVE = Path("PKG-INFO").exists()  # a source distribution, whose C files are there and are not older
CYTHON = find_spec("Cython") is not None
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def extensions():
    """Return one extension for each .pyx, as C."""
    found = [
        Extension(
            ".".join(source.with_suffix("").parts),
            sources=[str(source.with_suffix(".c") if FROM_ARCHIVE else source)],
            include_dirs=[numpy.get_include()],
            define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
            # Python's own flags ask for debug information, four times the code
            extra_compile_args=[] if os.name == "nt" else ["-O2", "-g0"],
        )
        for source in sorted(PACKAGE.rglob("*.pyx"))
    ]
    if FROM_ARCHIVE or not CYTHON:
        return found
    from Cython.Build import cythonize

    threads = CORES if sys.platform == "linux" else 0
    return cythonize(found, nthreads=threads, quiet=True, compiler_directives={"language_level": 3})


class BuildUnits(build_ext):
    """Compiles what is not in build/units yet, or older there than what it is made of."""

    def finalize_options(self):
        super().finalize_options()
        self.parallel = self.parallel or CORES

    def run(self):
        try:
            super().run()
        except (BaseError, CompileError, LinkError) as error:
            self.warn(f"the compiled engine is left out, and the plain one runs: {error}")
            for extension in self.extensions:
                for at in (self.get_ext_fullpath(extension.name), self.get_ext_filename(extension.name)):
                    Path(at).unlink(missing_ok=True)
            self.extensions.clear()

    def build_extension(self, ext):
        made = Path(self.get_ext_fullpath(ext.name))
        kept = Path("build", "units", sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag, made.name)
        kept = kept.with_name(ext.name + made.suffix)
        sources = [Path(path) for path in (__file__, *ext.sources, *ext.depends)]
        if not kept.exists() or max(source.stat().st_mtime for source in sources) > kept.stat().st_mtime:
            super().build_extension(ext)
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(made, kept)
        else:
            made.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(kept, made)


if __name__ == "__main__":  # not in the processes that translate: since Python 3.14 they import this file
    setup(
        ext_modules=extensions(),
        cmdclass={"build_ext": BuildUnits},
        setup_requires=[] if FROM_ARCHIVE or CYTHON else ["Cython>=3.1"],  # what pip asks for; C files need none
    )
