# Every target sets up what it needs: a clean clone, Python 3.11+ and make are enough.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint format model clean help bench-peers same-text

help:  ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

.venv/ready: pyproject.toml constraints.txt $(wildcard setup.py src/outpace/runtimes/native/kernels/cpp/*)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt torch setuptools
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

model: .venv/ready  ## fetch SmolLM2-135M-Instruct (98 MB) into the cache
	$(BIN)/outpace pull smollm2-135m

demo: model  ## the same text with and without speculation, and the measured ratio
	$(BIN)/outpace generate --model smollm2-135m --compare --max-tokens 160 \
	  "Copy this list, then add three more fruits: apple, banana, cherry, date, elderberry, fig, grape."

test: model  ## every promise, in minutes
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist loadgroup

lint: .venv/ready  ## format, lint, types, layers
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench-peers: .venv/ready  ## beside other engines (builds their environments; ARGS="--limit 12")
	$(BIN)/python -m benchmarks.peers $(ARGS)

same-text: model  ## 100 prompts x 512 tokens, with and without guesses (long; ARGS="--n-prompts 10")
	$(BIN)/python benchmarks/same_text.py $(ARGS)

format: .venv/ready  ## rewrite the files as lint wants them
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

clean:  ## remove what the other targets made
	rm -rf .venv build .mypy_cache .ruff_cache .pytest_cache
