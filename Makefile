# Each target sets up all it needs by itself; a set-up that is current takes no time.
# Variables: PYTHON starts the set-up, CPU=1 leaves out the libraries for GPUs (CPU=0: not any more), PORT and IP
# are for lab, ARGS goes to pytest, docs, reproduce, bench and lock.
PYTHON ?= python3
ARGS ?=
SETUP = @$(PYTHON) tools/setup.py $(if $(CPU),--cpu $(CPU))
BIN = .venv/bin

.DEFAULT_GOAL := help
.PHONY: help setup lab check test docs reproduce bench tagger tagger-scores lint lock

help:  ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "make %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup:  ## make the environment in .venv and KenLM's programs in .tools
	$(SETUP)

lab:  ## start JupyterLab on the tour (PORT=8888, IP=localhost)
	$(SETUP)
	@exec $(BIN)/workbench lab --port $(or $(PORT),8888) --ip $(or $(IP),localhost)

check: lint  ## style, types and the quick tests (those not in tests/slow.txt), in about a minute
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder \
		-m "not slow and not browser and not data and not gpu" \
		$(addprefix --ignore=tests/,browser gpu notebooks) tests $(ARGS)

test:  ## run all tests and list the ten slowest (ARGS="-m 'not slow'")
	$(SETUP) --test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations=10 $(ARGS)

docs:  ## build the documentation site in build/docs (ARGS=--fresh: all anew; ARGS=--linkcheck: ask for external links)
	$(SETUP)
	@$(BIN)/python tools/site/docs_site.py $(ARGS)

reproduce:  ## compute the reported numbers again
	$(SETUP)
	$(BIN)/workbench reproduce $(ARGS)

bench:  ## run the benchmarks and end with a table (ARGS="harness annotating --markdown")
	$(SETUP)
	@$(BIN)/python benchmarks/_table.py $(ARGS)

tagger:  ## train en_narrative from the data that WORKBENCH_DATA names (ARGS=--fresh: from the start)
	$(SETUP)
	$(BIN)/python tools/tagger/build.py $(ARGS)
	$(BIN)/python tools/tagger/scores.py --write

tagger-scores:  ## score en_narrative and its rules for quoted speech again (ARGS=--write: into its card)
	$(SETUP)
	$(BIN)/python tools/tagger/scores.py $(ARGS)
	$(BIN)/python tools/tagger/speech_scores.py

lint:  ## check style and types
	$(SETUP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

lock:  ## resolve requirements.lock anew (ARGS="--upgrade" for newer versions)
	$(SETUP) --uv pip compile --quiet --universal --generate-hashes --all-extras --no-header \
		--python-version 3.11 -o requirements.lock $(ARGS) pyproject.toml
