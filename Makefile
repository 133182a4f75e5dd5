# make sweep       set everything up, measure the demo target, print where the report is (5 to 6 minutes of measuring)
# make sweep-full  the grid of the README's second table: four methods, batch 1 to 8, two gammas, two replicates
# make test        linters, type checker and the whole test suite; installs vLLM's CPU build into the cache for it
#                  and, as root on Debian, Chromium for the tests that open the report in it
# make test-quick  the same without the tests that start a real vLLM
# make benchmark   the reference decoder against transformers, in one run
# make gpu-check   on a machine with an NVIDIA GPU: the reference decoder's exactness and speed, begins nothing after 8 minutes; needs
#                  PYTHON with torch, transformers and numpy, and nothing installed

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: sweep sweep-full test test-quick lint chromium benchmark gpu-check clean
.DEFAULT_GOAL := sweep

sweep: $(VENV)/.reference
	$(BIN)/specbench sweep --config configs/demo.yaml

sweep-full: $(VENV)/.reference
	$(BIN)/specbench sweep --config configs/demo-full.yaml

test: lint chromium
	$(BIN)/specbench backend install vllm --cpu || echo "vLLM is not here: the tests that start it are skipped."
	$(BIN)/specbench backend install llama.cpp --cpu || echo "llama.cpp is not here: its test is skipped."
	$(BIN)/specbench backend install sglang --parser-only || echo "SGLang's parser is not here: its tests are skipped."
	$(BIN)/python -m compileall -q specbench  # which tests start hundreds of times, where Python may keep no bytecode
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations 30

test-quick: lint chromium
	$(BIN)/python -m pytest -m 'not vllm'

lint: $(VENV)/.test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

chromium:
	@{ command -v chromium && command -v chromedriver; } >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver >/dev/null; } || \
	  echo "Chromium is not here: the tests that open the report in it are skipped."

benchmark: $(VENV)/.reference
	$(BIN)/python benchmarks/decoder_vs_transformers.py

gpu-check:
	$(PYTHON) -m specbench.decoder.gpu_check --output gpu-check.json

$(VENV)/.reference: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[reference]'
	touch $@

$(VENV)/.test: $(VENV)/.reference
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $@

clean:
	rm -rf $(VENV)
