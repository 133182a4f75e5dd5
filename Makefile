# make sweep       set everything up, measure the demo target, print where the report is (about 6 minutes of measuring)
# make sweep-full  the grid of the README's table: three methods, batch 1 to 8, two gammas, two replicates
# make test        linters, type checker and the whole test suite
# make test-vllm   the tests that start a real vLLM, from `specbench backend install vllm --cpu` (about 6 minutes)
# make benchmark   the reference decoder against transformers, in one run

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: sweep sweep-full test test-vllm lint benchmark clean
.DEFAULT_GOAL := sweep

sweep: $(VENV)/.reference
	$(BIN)/specbench sweep --config configs/demo.yaml

sweep-full: $(VENV)/.reference
	test -e reports/pruned-draft/config.json || $(BIN)/python -m specbench.demo.pruned_draft --output reports/pruned-draft
	$(BIN)/specbench sweep --config configs/demo-full.yaml

test: lint
	$(BIN)/python -m pytest

test-vllm: $(VENV)/.test
	$(BIN)/python -m pytest -m vllm

lint: $(VENV)/.test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

benchmark: $(VENV)/.reference
	$(BIN)/python benchmarks/decoder_vs_transformers.py "$$($(BIN)/python -c 'from specbench.demo import demo_target; print(demo_target())')"

$(VENV)/.reference: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[reference]'
	touch $@

$(VENV)/.test: $(VENV)/.reference
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $@

clean:
	rm -rf $(VENV)
