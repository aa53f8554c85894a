# What a developer types is what CI runs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null || echo $(VENV)/bin/uv)
SOURCES := $(shell find src -type f -not -path '*/__pycache__/*') pyproject.toml README.md
# uv leaves compiling to the first import, and where that may not write, to every one.
export UV_COMPILE_BYTECODE := 1
EXTRAS := instruments,cli,zstd,edri
# Web services, other instrumentations and configuration files bring packages that change every process they are in.
SERVICES := .venv-services
SERVICE_TESTS := tests/web tests/native tests/config tests/migration
DURABLE := .venv-durable
DURABLE_TESTS := tests/durable tests/control/test_durable.py

.PHONY: test demo report-demo report-image lint docs site durable coverage live matrix soak package bench bench-check clean

$(BIN)/python:
	@command -v uv >/dev/null 2>&1 || { $(PYTHON) -m venv $(VENV) && $(BIN)/pip install --quiet uv; }
	$(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV)

# The wheel is installed, not the source tree: what is tested is what is published.
$(VENV)/.installed: $(BIN)/python $(SOURCES)
	$(UV) pip install --quiet --python $(BIN)/python --reinstall-package actionspan '.[$(EXTRAS)]' --group dev
	@touch $@

$(SERVICES)/.installed: $(VENV)/.installed
	$(UV) venv --quiet --allow-existing --python $(PYTHON) $(SERVICES)
	$(UV) pip install --quiet --python $(SERVICES)/bin/python --reinstall-package actionspan '.[$(EXTRAS)]' \
		--group dev --group services
	@touch $@

$(DURABLE)/.installed: $(VENV)/.installed
	$(UV) venv --quiet --allow-existing --python $(PYTHON) $(DURABLE)
	$(UV) pip install --quiet --python $(DURABLE)/bin/python --reinstall-package actionspan '.[$(EXTRAS)]' \
		--group dev --group durable
	@touch $@

test: $(VENV)/.installed $(SERVICES)/.installed
	$(BIN)/python -m pytest -n auto $(SERVICE_TESTS:%=--ignore=%) --ignore=tests/docs
	$(SERVICES)/bin/python -m pytest -n auto $(SERVICE_TESTS)

demo: $(VENV)/.installed
	@$(BIN)/actionspan demo

report-demo: $(VENV)/.installed
	@rm -rf build/demo
	@$(BIN)/actionspan demo --content --record build/demo >/dev/null
	@$(BIN)/actionspan report build/demo --content -o report.html

# docs/images/report.png, by a Chromium.
report-image: report-demo
	$(BIN)/python scripts/report_image.py

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

docs: $(SERVICES)/.installed
	$(SERVICES)/bin/python -m pytest tests/docs

# The pages as a site, in build/site; what mkdocs warns of is an error, so is a page that loads something from elsewhere.
site: $(BIN)/python
	$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv-site
	$(UV) pip install --quiet --python .venv-site/bin/python --reinstall-package actionspan '.[instruments]' --group docs
	NO_MKDOCS_2_WARNING=1 .venv-site/bin/mkdocs build --strict

# Temporal's own test server and DBOS on SQLite.
durable: $(DURABLE)/.installed
	$(DURABLE)/bin/python -m pytest $(DURABLE_TESTS)

# Branch coverage of what is installed, by the tests of all environments together; fails below what pyproject.toml says,
# and below what scripts/coverage_branches.py says of branches by themselves.
# A process that a test kills may leave data that cannot be read: combining warns of it and goes on. Python 3.11 tells a
# tracer of the return of a generator that was thrown into and not of its call, so lines around that are missed there.
coverage: export COVERAGE_FILE := $(CURDIR)/build/coverage/data
coverage: $(VENV)/.installed $(SERVICES)/.installed $(DURABLE)/.installed
	rm -rf build/coverage && mkdir -p build/coverage
	$(BIN)/python -m coverage run -m pytest -n auto $(SERVICE_TESTS:%=--ignore=%) --ignore=tests/docs
	$(SERVICES)/bin/python -m coverage run -m pytest -n auto $(SERVICE_TESTS) tests/docs
	$(DURABLE)/bin/python -m coverage run -m pytest $(DURABLE_TESTS)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --skip-covered --show-missing
	$(BIN)/python -m coverage json --quiet -o - | $(BIN)/python scripts/coverage_branches.py

# A real backend, in an environment of its own that the test makes and keeps.
live: $(VENV)/.installed
	$(BIN)/python -m pytest -m live

# `make matrix ARGS="3.12-lowest"` for one of them.
matrix: $(VENV)/.installed
	UV=$(UV) $(BIN)/python scripts/matrix.py $(ARGS)

# `make soak ARGS="--soak-runs=2000 --soak-seconds=60"`; by default 10,000 runs, or as many as five minutes take.
soak: $(VENV)/.installed
	$(BIN)/python -m pytest -m soak tests/soak $(ARGS)

# What is published, looked at from outside. `make package ARGS=--write` writes docs/licences.md anew.
package: $(BIN)/python
	UV=$(UV) $(BIN)/python scripts/package.py $(ARGS)

# `make bench ARGS="--quick --scenario A"`; needs a quiet machine only in so far as ratios do.
bench: $(VENV)/.installed
	$(UV) pip install --quiet --python $(BIN)/python --group bench
	$(BIN)/python -m benchmarks $(ARGS)

# Fails when tracing costs more than benchmarks/baseline.json says, beyond noise; `ARGS=--write` writes that anew.
bench-check: $(VENV)/.installed
	$(BIN)/python -m benchmarks.check $(ARGS)

clean:
	rm -rf $(VENV) .venv-* build dist
