"""The one thing pyproject.toml cannot say in a stable way: compiled extensions that the installation may do without.

``optional=True`` turns a missing C compiler into a log line of the build; the package then runs its plain
twin and says so once.

Refused: compiling the modules of Python as they are.  With all 84 of regex/, schema/ and grammar/ compiled by Cython
(-O2, 4.6 minutes of a core, 18 MB of libraries) 250 schemas took 0.92 to 1.08 times as long, the median one 1.05 times;
attributes, small objects and calls between modules seem to be what counts, and the interpreter specialises these too.
"""

from pathlib import Path

import numpy
from setuptools import Extension, setup

PACKAGE = Path("constrained")
SHARED = [str(path) for path in sorted(PACKAGE.rglob("*.pxd"))]

setup(
    ext_modules=[
        Extension(
            ".".join(source.with_suffix("").parts), sources=[str(source)], depends=SHARED,
            include_dirs=[numpy.get_include()],
            define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
            extra_compile_args=["-O3", "-g0"],  # Python's own flags ask for debug information, four times the code
            optional=True,
        )
        for source in sorted(PACKAGE.rglob("*.pyx"))
    ]
)
