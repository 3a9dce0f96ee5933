# Each target sets up all it needs by itself; a set-up that is current takes no time.
# Variables: PYTHON starts the set-up, PORT and IP are for lab, ARGS goes to pytest, reproduce and lock.
PYTHON ?= python3
ARGS ?=
SETUP = @$(PYTHON) tools/setup.py
BIN = .venv/bin

export PORT IP

.DEFAULT_GOAL := help
.PHONY: help setup lab test reproduce bench lint lock

help:  ## list the targets
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup:  ## make the environment in .venv and KenLM's programs in .tools
	$(SETUP)

lab:  ## start JupyterLab on the tour (PORT=8888, IP=localhost)
	$(SETUP)
	@exec $(BIN)/python tools/lab.py

test:  ## run the tests (ARGS="-m 'not slow'")
	$(SETUP) --browser
	$(BIN)/python -m pytest $(ARGS)

reproduce:  ## compute the reported numbers again
	$(SETUP)
	$(BIN)/workbench reproduce $(ARGS)

bench:  ## run every benchmark, one after another
	$(SETUP)
	@set -e; for script in benchmarks/[!_]*.py; do \
		if [ -e "$$script" ]; then echo "== $$script"; $(BIN)/python "$$script"; fi; \
	done

lint:  ## check style and types
	$(SETUP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

lock:  ## resolve requirements.lock anew (ARGS="--upgrade" for newer versions)
	$(SETUP) --lock $(ARGS)
