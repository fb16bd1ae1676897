"""The one thing pyproject.toml cannot say in a stable way: a compiled extension that the installation may do without.

``optional=True`` turns a missing C compiler into a log line of the build; the package then runs its plain twin and says so once.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "constrained.engine._kernel",
            sources=["constrained/engine/_kernel.pyx"],
            extra_compile_args=["-O3"],
            optional=True,
        )
    ]
)
