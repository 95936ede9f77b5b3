# `make setup` prepares a virtual environment in .venv; every other target uses it.
# Needs Python 3.11 or newer and nothing else: no root, no container engine, no Redis.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-done

.DEFAULT_GOAL := help
.PHONY: help setup demo up test lint format bench bench-peers bench-injection chaos soak clean

help:
	@echo "make setup   virtual environment with everything that is needed"
	@echo "make demo    a whole system at work on a research task, with a checked answer"
	@echo "make up      a whole system on this machine, until Ctrl-C"
	@echo "make test    all tests"
	@echo "make lint    formatting, lint, types, import rules"
	@echo "make bench   measurements, one line each, in some minutes"
	@echo "make chaos   processes and servers die under load (MINUTES=30 SEED=1), and what must hold is checked"
	@echo "make soak    steady load (MINUTES=30), and what must not grow is watched: memory, connections, keys, files"
	@echo "make bench-peers   the turn of PERF1 in other engines, which it installs into .bench/"
	@echo "make bench-injection   what instructions injected into tools' results reach (AgentDojo, installed into .bench/)"

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "capataz needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1 || echo not there)." >&2; \
	  echo "Name another one: make setup PYTHON=python3.12" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
	  echo "the virtual environment cannot be made; on Debian and Ubuntu install python3-venv" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

demo: setup
	@$(BIN)/capataz demo

up: setup
	@$(BIN)/capataz up

# Most tests wait for processes and servers more than they compute, so more of them than cores run at once.
JOBS ?= 3

test: setup
	$(BIN)/python -m pytest tests --ignore=tests/bench -n $(JOBS) --dist loadfile

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup
	@$(BIN)/python -m tests.bench

bench-peers: setup
	@$(BIN)/python -m tests.bench.peers

bench-injection: setup
	@$(BIN)/python -m tests.bench.injection

MINUTES ?= 30
SEED ?= 1

chaos: setup
	@$(BIN)/python -m tests.chaos --minutes $(MINUTES) --seed $(SEED)

soak: setup
	@$(BIN)/python -m tests.soak --minutes $(MINUTES)

clean:
	rm -rf $(VENV) .bench build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
