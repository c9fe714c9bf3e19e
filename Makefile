# One target for everything that CI and a newcomer do. `make setup`, `make lint` and `make check` need no Java.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEV := $(VENV)/.installed-dev
DEMO := $(VENV)/.installed-demo
CLASSES := $(VENV)/.spark-classes.jsa
# Without Maven, tests that need a Kafka broker or a schema registry are skipped, but for those of CI.
FETCH_KAFKA := command -v mvn >/dev/null && { $(BIN)/python tests/kafka/jars.py; $(BIN)/python tests/kafka/registry.py; } || true
FLIGHTS := --project-dir projects/flights
# Three processes for two cores, as one of them mostly waits: for disks, other processes, signals. They take a file after
# the other, those first that take longest (`tests/conftest.py`).
PYTEST := $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder
# Where it is set, each of the hundreds of Python processes of the tests would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-kafka kafka-jars test soak check lint format bench bench-report

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(DEV)  ## create .venv and install headwater with its development tools

demo: $(DEMO)  ## build the example project of flight delays and show its results
	@$(BIN)/headwater debug $(FLIGHTS) python java
	@$(BIN)/headwater build $(FLIGHTS)
	@$(BIN)/headwater read $(FLIGHTS) hourly_delays --limit 10

demo-kafka: $(DEV)  ## run the example project of topics in Kafka, with a broker and Kafka's own tools
	@$(FETCH_KAFKA)
	@$(BIN)/python projects/kafka/demo.py

kafka-jars: $(DEV)  ## fetch the Kafka broker and the schema registry of tests, where they are not there yet (needs Java and Maven)
	@$(BIN)/python tests/kafka/jars.py
	@$(BIN)/python tests/kafka/registry.py

test: $(CLASSES)  ## run all tests but those of soak (needs Java)
	@$(FETCH_KAFKA)
	@$(PYTEST) -m 'not soak'

soak: $(CLASSES)  ## run the tests that take many minutes (needs Java)
	@$(FETCH_KAFKA)
	@$(PYTEST) -m soak
	@$(PYTEST) -m 'hypothesis and not soak' --hypothesis-profile soak

check: lint  ## lint, and run the tests that need no Java and are not slow
	@$(PYTEST) -m 'not spark and not cluster and not kafka and not slow and not soak'

lint: $(DEV)  ## ruff, mypy and the import rules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy -p headwater
	@$(BIN)/lint-imports

format: $(DEV)  ## put the code into its format
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(DEV)  ## measure Headwater beside its peers, all or ONLY=keyed_count,growth (needs Java)
	@$(BIN)/python -m benchmarks $(if $(ONLY),--only $(ONLY)) $(BENCH)

bench-report: $(DEV)  ## write docs/benchmarks.md from the figures that `make bench` has kept
	@$(BIN)/python -m benchmarks.suite.report

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "Headwater needs Python 3.11 or later, and there is no $(PYTHON) here: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Headwater needs Python 3.11 or later, and $(PYTHON) is $$($(PYTHON) -V 2>&1): make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(DEV): pyproject.toml | $(BIN)/python
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(DEMO)

$(CLASSES): $(DEV)
	@$(BIN)/python tests/quick_jvm.py

$(DEMO): pyproject.toml | $(BIN)/python
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo]'
	@touch $@
