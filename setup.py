"""The one thing pyproject.toml cannot say in a stable way: compiled extensions that the installation may do without.

``optional=True`` turns a missing C compiler into a log line of the build; the package then runs its plain
twin and says so once.
"""

from pathlib import Path

import numpy
from setuptools import Extension, setup

ENGINE = Path("constrained/engine")
SHARED = [str(path) for path in sorted(ENGINE.rglob("*.pxd"))]

setup(
    ext_modules=[
        Extension(
            ".".join(source.with_suffix("").parts), sources=[str(source)], depends=SHARED,
            include_dirs=[numpy.get_include()],
            define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")], extra_compile_args=["-O3"], optional=True
        )
        for source in sorted(ENGINE.rglob("*.pyx"))
    ]
)
