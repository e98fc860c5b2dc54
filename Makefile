# Two commands: `make nightly` runs a night on the simulated device, `make test` runs every check.
# Nothing is needed before them but Python 3.11 or newer and a C++ compiler.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
TORCH := torch==2.13.0
# Tests wait for processes and deadlines as much as they compute: three for two cores.
PROCESSES := $(shell echo $$(( ($$(getconf _NPROCESSORS_ONLN) * 3 + 1) / 2 )))
NATIVE := setup.py pyproject.toml $(wildcard torchneuron_backend/csrc/*)

.PHONY: nightly test lint types imports unit asan protect soak dashboard clean

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
	$(BIN)/pytest -n $(PROCESSES) --dist worksteal -q

# The device's own tests with its C++ part built for AddressSanitizer, into a folder of its own. The option
# -p loads that copy before pytest imports anything; `python -m pytest` would find the ordinary one first.
asan: $(VENV)/.installed-dev
	CFLAGS="-fsanitize=address -fno-omit-frame-pointer" LDFLAGS=-fsanitize=address \
		$(BIN)/python setup.py -q build_ext --build-lib build/asan --build-temp build/asan/obj
	cp -r torchneuron_backend/*.py torchneuron_backend/lowerings.json torchneuron_backend/compiler build/asan/torchneuron_backend/
	PYTHONPATH=build/asan LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so)" \
		ASAN_OPTIONS=detect_leaks=0:handle_segv=0:handle_abort=0 \
		$(BIN)/pytest -q -p torchneuron_backend -p no:cacheprovider \
		--ignore=tests/torchneuron_backend/compiler tests/torchneuron_backend

# The device's own tests with its memory closed to the host except while device work runs.
protect: $(VENV)/.installed-dev
	TORCHNEURON_PROTECT=1 $(BIN)/pytest -n auto --dist worksteal -q tests/torchneuron_backend

# Kills a random process of a running night every few seconds for ten minutes, and resumes it until it is done.
soak: $(VENV)/.installed
	$(BIN)/python benchmarks/soak.py --minutes 10

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
	@$(PIP) install --no-deps $$($(BIN)/harness zoo packages --requirements)
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@$(PIP) install --no-build-isolation --editable '.[mirror,dev]'
	@touch $@
