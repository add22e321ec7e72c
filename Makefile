# The two commands: `make demo` sets everything up and runs the main job, `make test` runs the tests. `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
CXX    ?= g++

# What the native library is built from: a change here installs again. So does a Python file that comes or goes, for an
# editable install remembers where each one lies.
SOURCES := pyproject.toml CMakeLists.txt $(shell find native cmake -type f -not -path 'native/fuzz/*' 2>/dev/null | LC_ALL=C sort)
FILES   := $(shell find tutti_hal backends kernels_templates conformance_tests -type f -not -path '*/__pycache__/*' | LC_ALL=C sort | cksum | cut -d' ' -f1)
DEMO    := $(VENV)/.demo-$(FILES)
DEV     := $(VENV)/.dev-$(FILES)

.PHONY: help demo test test-suite lint format types check sanitize fuzz fuzz-quick nightly bench docs golden mustpass certify registry sims isa-matrix self-test mutants wheel clean setup require

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 18

require:
	@command -v $(PYTHON) >/dev/null || { echo "Python is missing: sudo apt-get install python3 python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed, $$($(PYTHON) -V) found: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@command -v $(CXX) >/dev/null || { echo "A C++ compiler is missing: sudo apt-get install g++" >&2; exit 1; }

$(VENV)/pyvenv.cfg: | require
	@echo "-- creating $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "Python's venv module is missing: sudo apt-get install python3-venv" >&2; exit 1; }

# The demo needs less than the tests; either stamp is renewed when native sources or the project file change.
$(DEMO): $(SOURCES) | $(VENV)/pyvenv.cfg require
	@echo "-- installing into $(VENV) (a minute or two the first time)"
	@$(PY) -m pip install --disable-pip-version-check --progress-bar on -e '.[report]' | sed -u -n -E 's/^(Collecting [^ ]+|Building .*|Successfully .*)/   \1/p'
	@touch $@

$(DEV): $(SOURCES) | $(VENV)/pyvenv.cfg require
	@echo "-- installing with what the tests need into $(VENV) (a minute or two the first time)"
	@$(PY) -m pip install --disable-pip-version-check --progress-bar on -e '.[dev,report]' | sed -u -n -E 's/^(Collecting [^ ]+|Building .*|Successfully .*)/   \1/p'
	@touch $@ $(DEMO)

setup: $(DEV) ## .venv with everything that development needs

demo: $(DEMO) ## the main job on HOST and the software controller: render, compile, move a KV-cache workload, verify
	@mkdir -p out
	@$(PY) -m tutti_hal demo --profile host --plot out/demo.png

test: $(DEV) ## unit, property and quick conformance tests, on every core
	@$(PY) -m pytest -n auto -m "not suite"

test-suite: $(DEV) ## tests of the conformance suite itself: planted cases, forged packages, mutants, models
	@$(PY) -m pytest -n auto -m suite

lint: $(DEV) ## ruff and clang-format, changing nothing
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@find native benchmarks tests conformance_tests examples tutti_hal -name '*.cpp' -o -name '*.hpp' -o -name '*.[ch]' | LC_ALL=C sort | xargs $(VENV)/bin/clang-format --dry-run -Werror

format: $(DEV) ## apply ruff and clang-format
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .
	@find native benchmarks tests conformance_tests examples tutti_hal -name '*.cpp' -o -name '*.hpp' -o -name '*.[ch]' | LC_ALL=C sort | xargs $(VENV)/bin/clang-format -i

types: $(DEV) ## mypy --strict on the installed form of the package
	@$(PY) .ci/check_types.py

check: $(DEV) ## every gate of docs/gates.md with its budget
	@$(PY) .ci/gates.py

sanitize: $(DEV) ## the native code under ASan, UBSan and TSan
	@$(PY) .ci/gates.py sanitizers

fuzz-quick: $(DEV) ## the software controller under libFuzzer for 30 s (needs clang)
	@$(PY) .ci/fuzz.py --seconds 30

fuzz: $(DEV) ## the same for 10 minutes
	@$(PY) .ci/fuzz.py --seconds 600

nightly: $(DEV) ## the long forms into docs/nightly.json; PARTS="campaign soak" runs some (docs/gates.md)
	@$(PY) .ci/nightly.py $(PARTS)

bench: $(DEV) ## the figures of benchmarks/, each beside its baseline
	@mkdir -p out
	@for b in benchmarks/bench_*.py; do echo "-- $$b"; $(PY) $$b --json > out/$$(basename $$b .py).json; cat out/$$(basename $$b .py).json; done

docs: $(DEV) ## the documentation into site/
	@$(PY) -m pip install -q --disable-pip-version-check -e '.[docs]'
	@$(PY) -m sphinx -q -W --keep-going -b html docs site

golden: $(DEV) ## write the golden files of generation again
	@$(PY) -m pytest tests/codegen --update-golden -q

mustpass: $(DEV) ## write the must-pass lists of the conformance suite again
	@$(PY) -m tutti_hal.conformance_tests.mustpass --folder conformance_tests/mustpass

certify: $(DEV) ## the conformance suite on HOST, whole, with its evidence judged again
	@$(PY) -m tutti_hal certify --profile host --out out/evidence --force
	@$(PY) -m tutti_hal verify out/evidence

registry: $(DEV) ## certify PROFILES (host) whole, each within LIMIT seconds (1800; RESUME=--resume goes on), and enter what passes into the registry
	@for p in $(or $(PROFILES),host); do $(PY) -m tutti_hal certify --profile $$p --time-limit $(or $(LIMIT),1800) --out out/registry/$$p $(or $(RESUME),--force) || true; \
	  $(PY) -m tutti_hal.conformance_tests.package.registry add out/registry/$$p || exit 1; done

sims: $(DEV) ## a slice of the suite on the simulated MUSA, MACA and HIP, with its evidence judged again
	@$(PY) .ci/sims.py

isa-matrix: $(DEV) ## every kernel for every arch whose compiler is here: instructions in order, resources against the baseline
	@$(PY) -m tutti_hal.conformance_tests.isa

self-test: $(DEV) ## the suite on a sample of mutants of the product
	@$(PY) -m tutti_hal certify --profile host --self-test --sample 20

mutants: $(DEV) ## try the mutants again whose row in the kept table does not hold, and keep what comes of them
	@$(PY) -m tutti_hal certify --profile host --self-test --changed --table conformance_tests/mutants/table.jsonl

wheel: $(DEV) ## sdist, then the wheel from the sdist, into dist/
	@rm -rf dist && $(PY) -m build

clean: ## remove what make made
	rm -rf $(VENV) build dist out site .pytest_cache .mypy_cache .ruff_cache .hypothesis
