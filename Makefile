# Everything runs in .venv, which the first target that needs it creates.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
MEASURING := .venv-bench
MEASURABLE := $(MEASURING)/.installed

# More for pytest, e.g. PYTEST_ARGS="-x -k claim". Tests wait a good deal: three at a time keep two cores busy.
PYTEST_ARGS ?= -n 3 --dist worksteal
BENCH_ARGS ?=
# What to crawl instead of the demo web, where to, and more flags for `swath crawl`.
SEEDS ?=
ifeq ($(strip $(SEEDS)),)
OUT ?= demo-crawl
else
OUT ?= crawl
endif
CRAWL_ARGS ?=
SOAK_MINUTES ?= 10
MUTATIONS ?= 100

# The tests start hundreds of processes, each of which would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv crawl test pytest lint format mutations record-format bench bench-crawl bench-kills bench-backfill bench-scan soak clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(INSTALLED) ## Create .venv with swath, its extras and all development tools

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "swath needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3" >&2; exit 1; }
	@if ! $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null; then \
		if [ "$$(id -u)" = 0 ] && [ -e /etc/debian_version ]; then \
			echo "installing python3-venv, which Debian keeps apart from python3"; \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null; \
		else \
			echo "$(PYTHON) cannot create virtual environments." >&2; \
			echo "On Debian or Ubuntu run: sudo apt-get install python3-venv" >&2; \
			exit 1; \
		fi; \
	fi
	@$(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-compile -e '.[all,dev]'
	@touch $@

crawl: $(INSTALLED) ## Crawl a demo web into ./demo-crawl, or SEEDS="https://example.com" into ./crawl; also OUT and CRAWL_ARGS
ifeq ($(strip $(SEEDS)),)
	@$(BIN)/python examples/demo_crawl.py --out $(OUT) $(CRAWL_ARGS)
else
	@$(BIN)/swath crawl $(SEEDS) --out $(OUT) $(CRAWL_ARGS)
endif

test: lint pytest ## Run lint and all tests; PYTEST_ARGS is passed on

pytest: $(INSTALLED)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(INSTALLED) ## Check style, types and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(INSTALLED) ## Mend style
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

record-format: $(INSTALLED) ## Record the hashes of tables and stored functions in tests/formats.json
	$(BIN)/python scripts/record_format.py

# The peers have an environment of their own: tests never run beside them.
$(MEASURABLE): $(INSTALLED)
	@$(PYTHON) -m venv $(MEASURING)
	@echo "installing swath and what to compare it with into $(MEASURING)"
	@$(MEASURING)/bin/python -m pip install -qq --disable-pip-version-check -e '.[bench]'
	@touch $@

bench: $(MEASURABLE) ## Measure; see docs/benchmarks.md for BENCH_ONLY, BENCH_ITEMS, BENCH_SECONDS and the others
	$(MEASURING)/bin/python -m benchmarks $(BENCH_ARGS)

bench-crawl: $(MEASURABLE) ## Measure the crawler beside others; see docs/benchmarks.md for BENCH_ONLY and BENCH_PAGES
	$(MEASURING)/bin/python -m benchmarks.crawl $(BENCH_ARGS)

bench-kills: $(MEASURABLE) ## Kill the same spider of swath, Scrapy and Crawlee, and count lost and doubled items; BENCH_ONLY
	$(MEASURING)/bin/python -m benchmarks.kills $(BENCH_ARGS)

bench-backfill: $(MEASURABLE) ## Measure a backfill beside one UPDATE and a loop by hand; BENCH_ROWS, see docs/benchmarks.md
	$(MEASURING)/bin/python -m benchmarks.backfill $(BENCH_ARGS)

bench-scan: $(MEASURABLE) ## Measure scans beside plain loops; BENCH_ONLY, BENCH_ROWS and BENCH_FILES, see docs/benchmarks.md
	$(MEASURING)/bin/python -m benchmarks.scan $(BENCH_ARGS)

# Each round gets a fresh seed and prints it; SWATH_SEED=n make pytest repeats one.
soak: $(INSTALLED) ## Run the stateful and crash tests, killed crawls and the fuzzers with fresh seeds for SOAK_MINUTES (10)
	@end=$$(( $$(date +%s) + $(SOAK_MINUTES) * 60 )); round=0; \
	while [ "$$(date +%s)" -lt "$$end" ]; do \
		round=$$(( round + 1 )); seed=$$(od -An -N4 -tu4 /dev/urandom | tr -d ' '); \
		echo "soak round $$round, SWATH_SEED=$$seed"; \
		SWATH_SOAK=1 SWATH_SEED=$$seed $(BIN)/python -m pytest -x tests/stateful tests/crash \
			tests/crawl/test_killed.py tests/crawl/handlers/test_killed.py \
			tests/crawl/test_page_bytes.py tests/crawl/test_tree_limits.py tests/scan/test_comparison_fuzz.py $(PYTEST_ARGS) || \
			{ echo "failed with SWATH_SEED=$$seed" >&2; exit 1; }; \
	done; \
	echo "$$round rounds without a failure"

# SWATH_SEED=n make mutations repeats a sample; the first run records for several minutes which test runs which code.
mutations: $(INSTALLED) ## Make MUTATIONS (100) random mutants of the code, and report those that no test notices
	$(BIN)/python -m tests.mutations.sample --count $(MUTATIONS)

clean: ## Remove .venv, caches and build products
	rm -rf $(VENV) $(MEASURING) build dist .mutations .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
