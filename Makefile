# Every target sets up what it needs: a virtual environment in $(VENV), pinned by constraints.txt.
#
#   make report               the parity report on the best backend of this machine
#   make test                 all tests that this machine can run
#   make check                style, format, types and house rules
#   make golden               the machine code of every shipped variant, held against the digests in data/golden
#   make lab                  JupyterLab on the notebooks
#   make mi355x SYSTEM_SITE=1 everything that an MI355X can measure, into one folder; hours
#
#   PYTHON=python3.12         the interpreter to build the environment with (3.11 or newer)
#   VENV=path                 another environment, also an existing one
#   SYSTEM_SITE=1             keep the torch and Triton that $(PYTHON) or $(VENV) already has (ROCm, CUDA)
#   ARGS="..."                passed on to the command, e.g. make test ARGS="-k dense"
#   PIP_FLAGS=                watch pip at work

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.PHONY: report test check golden lab mi355x

PYTHON ?= python3
VENV ?= .venv
SYSTEM_SITE ?= 0
PIP_FLAGS ?= --quiet
JOBS ?= logical
ARGS ?=

RUN := $(VENV)/bin/python
# Python compiles what it imports, once; compiling all that is installed takes as long as installing it.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(RUN) -m pip install --disable-pip-version-check --no-input --no-compile $(PIP_FLAGS)
INSTALLED := $(VENV)/.attention-workbench-installed

# Older compilers whose machine code the tests compare: beside the environment, since it holds one Triton.
TRITON_VERSIONS := 3.6.0
TRITONS := $(TRITON_VERSIONS:%=.triton/%/.installed)

report: $(INSTALLED)
	$(VENV)/bin/workbench report parity $(ARGS)

# One thread per process: the tests are spread over the cores already.
test: $(INSTALLED) $(TRITONS)
	OMP_NUM_THREADS=1 $(RUN) -m pytest -n $(JOBS) --maxprocesses 8 --dist loadgroup $(ARGS)

check: $(INSTALLED)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	find notebooks -name '*.ipynb' -print0 | xargs -0 --no-run-if-empty $(VENV)/bin/nbstripout --keep-id --verify
	$(RUN) -m pytest --quiet tests/test_house_rules.py

golden: $(INSTALLED) $(TRITONS)
	$(VENV)/bin/workbench golden check $(ARGS)

lab: $(INSTALLED)
	$(VENV)/bin/jupyter lab notebooks $(ARGS)

mi355x: $(INSTALLED) $(TRITONS)
	$(VENV)/bin/workbench measure --expect mi355x $(ARGS)

$(INSTALLED): pyproject.toml constraints.txt
	@test -x $(RUN) || $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Name another one, e.g.: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@test -x $(RUN) || $(PYTHON) -m venv $(if $(filter 1,$(SYSTEM_SITE)),--system-site-packages) $(VENV)
	@echo "Installing into $(VENV); the first time takes some minutes."
ifeq ($(SYSTEM_SITE),1)
	@$(RUN) -c 'import torch, triton' || { \
	  echo "SYSTEM_SITE=1 keeps an installed torch and Triton, but $(RUN) finds none (README, Installing)." >&2; exit 1; }
	grep -vE '^(torch|triton)\b' constraints.txt > $(VENV)/constraints.txt
	$(RUN) -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	  needs = p["dependencies"] + p["optional-dependencies"]["dev"]; \
	  print(*(need for need in needs if not need.startswith(("torch", "triton"))), sep="\n")' > $(VENV)/requirements.txt
	$(PIP) -c $(VENV)/constraints.txt -r $(VENV)/requirements.txt
	$(PIP) --no-deps --no-build-isolation -e .
else
	$(PIP) -c constraints.txt -e '.[dev]'
endif
	@touch $@

.triton/%/.installed: | $(INSTALLED)
	$(PIP) --no-deps --upgrade --target .triton/$* triton==$*
	@touch $@
