# The one entry for people and CI; `make` alone lists what there is.
.DEFAULT_GOAL := help

VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.set-up
COMPILED := $(VENV)/.compiled
LOOPS := spark_core/jit.py $(wildcard $(addsuffix *.py,$(sort $(dir $(shell grep -rl --include=*.py '^@compiled' spark_core)))))
EMULATORS := .emulators/.set-up
# More words for pytest or for what is measured: make test ARGS="-k namespace -x", make bench ARGS="--objects 300"
ARGS ?=

# Nothing that is started from here reports to anybody.
export DAGSTER_DISABLE_TELEMETRY := yes
export PYTHONUNBUFFERED := 1

.PHONY: help setup emulators demo test test-slow test-deep mutations bench bench-large bench-decoder bench-fates model test-live test-spark test-image wheels lint audit docs format ui clean

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(COMPILED) ## make .venv with everything in it, at the versions of constraints.txt (checks Java 17 and Python 3.11 first), and compile the loops

$(READY): pyproject.toml constraints.txt
	@.ci/setup $(VENV)
	@touch $@

# What is not kept is compiled, some fifteen seconds, by each process of the tests that needs it.
$(COMPILED): $(READY) $(LOOPS)
	@$(BIN)/python -m spark_core.compile_loops
	@touch $@

demo: $(COMPILED) ## watch a whole garbage collection of a repository made for it, with the proof at the end
	@$(BIN)/lakegc demo

# Where npm or Go is missing the script says so, and the tests of that store are skipped with the reason.
$(EMULATORS): .ci/install-azurite .ci/install-gcs-emulator
	@mkdir -p .emulators
	@.ci/install-azurite || echo "the tests of Azure Blob Storage will be skipped"
	@.ci/install-gcs-emulator || echo "the tests of Google Cloud Storage will be skipped"
	@touch $@

emulators: $(EMULATORS) ## install the emulators of Azure (npm) and GCS (Go) that the tests of those stores run against

# Where Python may not keep what it compiles, each process compiles all tests and the package anew, ten seconds for each.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder

# What a branch can touch is run however long it takes.
test: $(COMPILED) $(EMULATORS) ## run the tests (ARGS="-k words" for some of them, ARGS=--changed for all, also slow ones, that your branch can touch)
	$(PYTEST) -m "not deep$(if $(findstring --changed,$(ARGS)),, and not slow)" $(ARGS)

test-slow: $(COMPILED) $(EMULATORS) ## run the tests that `make test` leaves out: searches, faults, processes, browsers, clusters
	$(PYTEST) -m "slow and not deep" $(ARGS)

test-deep: $(COMPILED) $(EMULATORS) ## run the long searches, more than an hour, and end with their table (ARGS="search": a part; a run that was ended goes on)
	$(BIN)/python -m tests.deep.run $(ARGS)

mutations: $(READY) ## take each guard of docs/safety.md out of a copy of the code, and see its test fail
	$(BIN)/python -m tests.losses.mutate $(ARGS)

model: $(READY) ## let Spin check the model of the protocol, and each guard by its lack (ten minutes; ARGS="--quick": the smallest one, and the guards)
	@$(BIN)/python -m tests.model.run $(ARGS)

bench: $(READY) ## measure marks: time, CPU, memory, Spark's tasks, requests, calls (docs/performance.md; ARGS="--help")
	$(BIN)/python -m benchmarks.mark $(ARGS)

bench-large: $(READY) ## measure the case of lakeFS's design document on a synthetic store (ARGS="--factor 0.01" for a hundredth of it)
	$(BIN)/python -m benchmarks.large $(ARGS)

bench-decoder: $(READY) ## measure entries that one core reads in a second, and the cost of a small range
	$(BIN)/python -m benchmarks.decoder $(ARGS)

bench-fates: $(READY) ## measure the decision alone: 20 million objects with 23 million references (ARGS="--objects N")
	$(BIN)/python -m benchmarks.fates $(ARGS)

test-live: $(READY) ## run the tests that need a lakeFS server (without one they say how to name it)
	$(BIN)/python -m pytest -rs tests/live $(ARGS)

test-image: ## run the steps of deploy/Dockerfile in a chroot, then the demo and a mark in it (Linux, root, debootstrap)
	@.ci/test-image $(ARGS)

test-spark: $(READY) ## run the demo, a killed sweep, a cluster and a damaged task on Spark 3.5, 4.0, 4.1, the newest, Connect, on Python 3.13, and with the oldest libraries (ARGS="--only 3.5 --part demo")
	@$(BIN)/python .ci/test_spark.py $(ARGS)

wheels: ## build wheels and sdists into dist/, and use each in an empty environment (ARGS="python3.11 python3.12")
	@.ci/check-wheels $(ARGS)

lint: $(READY) ## ruff, mypy --strict, import-linter, and the budget of statements
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/count_statements.py

audit: $(READY) ## look for known vulnerabilities in what is installed; fails where they cannot be looked up
	@.ci/audit $(VENV)

# The programs that build the site are installed when it is first asked for.
$(BIN)/mkdocs: $(READY)
	@.ci/setup $(VENV) dev,docs
	@touch $@

# With --quiet mkdocs counts no warnings, and --strict lets broken links pass.
docs: $(BIN)/mkdocs ## build the documentation into site/; a broken link fails
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "site/index.html"

format: $(READY) ## put the code into its form
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

ui: $(READY) ## open Dagster's UI on the sandbox of the last demo (Ctrl-C ends both)
	@$(BIN)/lakegc ui --sandbox

clean: ## take away caches and the demo's sandbox; .venv, .emulators and .lakegc stay
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis spark-warehouse metastore_db derby.log dist site
	find spark_core lakegc_dagster tests -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -f $(COMPILED)
	if [ -f .sandbox/.made-by-lakegc-demo ]; then rm -rf .sandbox; fi
