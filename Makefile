# Two commands: `make nightly` runs a night on the simulated device, `make test` runs every check.
# Nothing is needed before them but Python 3.11 or newer and a C++ compiler.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
TORCH := torch==2.13.0
NATIVE := setup.py pyproject.toml $(wildcard torchneuron_backend/csrc/*)

.PHONY: nightly test lint types imports unit dashboard clean

nightly: $(VENV)/.installed
	@$(BIN)/harness nightly

test: lint types imports unit

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

imports: $(VENV)/.installed-dev
	$(BIN)/lint-imports

unit: $(VENV)/.installed-dev
	$(BIN)/pytest -n auto --dist worksteal -q

dashboard: $(VENV)/.installed
	@$(BIN)/harness dashboard

clean:
	rm -rf $(VENV) build *.egg-info torchneuron_backend/*.so

# torch comes first and by itself: the device's extension is compiled against the installed one.
$(VENV)/.torch:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed; run make with PYTHON=python3.11")'
	@echo "Setting up $(VENV): torch first (once; takes a minute or two)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install $(TORCH) 'setuptools>=80' wheel ninja
	@touch $@

$(VENV)/.installed: $(VENV)/.torch $(NATIVE)
	@echo "Building the simulated device and installing the rest"
	@$(PIP) install --no-build-isolation --editable '.[mirror]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@$(PIP) install --no-build-isolation --editable '.[mirror,dev]'
	@touch $@
