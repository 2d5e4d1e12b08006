# Everything a newcomer needs: `make demo` and `make test` set up what they use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: setup demo test lint bench real browser gateway deep docs format clean check-machine

setup: $(READY)

check-machine:
	@command -v $(PYTHON) >/dev/null || { echo "python3 is missing: apt-get install python3 python3-venv"; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: apt-get install python3"; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "the venv package is missing: apt-get install python3-venv"; exit 2; }

$(READY): pyproject.toml | check-machine
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) ..."
	@$(BIN)/python -m pip install -q -e '.[dev]'
	@touch $(READY)

demo: setup
	@rm -rf out/demo
	@$(BIN)/signoff demo -o out/demo

test: setup
	@$(BIN)/python -m pytest

lint: setup
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

format: setup
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: setup
	@$(BIN)/python bench/run.py

real: setup
	@$(BIN)/python tests/lanes/real.py

browser: setup
	@command -v chromedriver >/dev/null || { echo "Chromium is missing: apt-get install chromium chromium-driver"; exit 2; }
	@$(BIN)/python -m pytest -m browser

gateway: setup
	@command -v nginx >/dev/null || { echo "nginx is missing: apt-get install nginx-light"; exit 2; }
	@$(BIN)/python -m pytest -m gateway

docs: setup
	@$(BIN)/python tests/report/write_pages.py

deep: setup
	@$(BIN)/python tests/lanes/deep.py

clean:
	rm -rf out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
