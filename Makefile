# make run   set up, then database, broker, worker and page on http://127.0.0.1:7860
# make test  set up, then the tests
# Where there is no GPU:  make run TORCH_INDEX=https://download.pytorch.org/whl/cpu
VENV ?= .venv
PYTHON ?= python3
PIP = $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
export OMP_WAIT_POLICY = PASSIVE

.PHONY: run test browser lint

run: $(VENV)/installed
	$(VENV)/bin/espalier serve

test: $(VENV)/installed-dev
	$(VENV)/bin/python -m pytest -m "not browser"

browser: $(VENV)/installed-dev
	$(VENV)/bin/python -m pytest -m browser

lint: $(VENV)/installed-dev
	$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check . && $(VENV)/bin/mypy

$(VENV)/installed: pyproject.toml
	@echo "[1/2] making a virtual environment in $(VENV)"
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@echo "[2/2] installing the packages (PyTorch first)"
	@$(PIP) "torch>=2.10,<2.14"
	@$(PIP) -e .
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed
	@echo "installing what the tests need"
	@$(PIP) -e ".[dev]"
	@touch $@
