# make sweep       set everything up, measure the demo target, print where the report is (5 to 6 minutes of measuring)
# make sweep-full  the grid of the README's second table: four methods, batch 1 to 8, two gammas, two replicates
# make test        linters, type checker and the whole test suite; installs vLLM's CPU build into the cache for it
# make test-quick  the same without the tests that start a real vLLM
# make benchmark   the reference decoder against transformers, in one run

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: sweep sweep-full test test-quick lint benchmark clean
.DEFAULT_GOAL := sweep

sweep: $(VENV)/.reference
	$(BIN)/specbench sweep --config configs/demo.yaml

sweep-full: $(VENV)/.reference
	$(BIN)/specbench sweep --config configs/demo-full.yaml

test: lint
	$(BIN)/specbench backend install vllm --cpu || echo "vLLM is not here: the tests that start it are skipped."
	$(BIN)/python -m pytest

test-quick: lint
	$(BIN)/python -m pytest -m 'not vllm'

lint: $(VENV)/.test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

benchmark: $(VENV)/.reference
	$(BIN)/python benchmarks/decoder_vs_transformers.py

$(VENV)/.reference: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[reference]'
	touch $@

$(VENV)/.test: $(VENV)/.reference
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $@

clean:
	rm -rf $(VENV)
