# `make run` and `make test` are all that a fresh machine needs.
.PHONY: run test check bench clean

READY := .venv/.ready
TOOLS := .venv/.tools
PYTHON_ROOMS := harness workloads nemesis checkers compose tests benches
CRATES := checkers/histories checkers/porcupine harness/sim/explorer harness/sim/simulator

run: $(READY)  ## the main job: 30 s of faults on real servers (simulated ones where no engine answers), and a verdict
	.venv/bin/harness run --cluster auto --nemesis partition --time-limit 30 || [ $$? -le 2 ] # any verdict will do

test: check ## everything that CI runs
	for crate in $(CRATES); do (cd $$crate && cargo test --release --quiet) || exit 1; done
	.venv/bin/pytest -q -n 2 --dist loadfile

check: $(TOOLS)  ## format, lint, types, the direction of imports
	.venv/bin/ruff format --check $(PYTHON_ROOMS)
	.venv/bin/ruff check $(PYTHON_ROOMS)
	.venv/bin/mypy
	.venv/bin/lint-imports
	for crate in $(CRATES); do (cd $$crate && cargo fmt --check \
	    && cargo clippy --quiet --release --features python --all-targets -- -D warnings) || exit 1; done

bench: $(READY)  ## figures, not tests; GRID=--quick for less
	.venv/bin/python -m benches.interpreter
	.venv/bin/python -m benches.reads
	.venv/bin/python -m benches.timeline
	.venv/bin/python -m benches.explorer
	.venv/bin/python -m benches.sim
	.venv/bin/python benches/porcupine.py
	.venv/bin/python -m benches.fleet 100 1000
	.venv/bin/python benches/porcupine_grid.py $(GRID)

clean:  ## what runs left in Docker, then everything that is built
	[ ! -x .venv/bin/harness ] || .venv/bin/harness clean
	rm -rf .venv $(addsuffix /target,$(CRATES)) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(READY): pyproject.toml constraints.txt setup.sh $(shell find $(addsuffix /src,$(CRATES)) -name "*.rs") $(addsuffix /Cargo.toml,$(CRATES)) $(wildcard compose/images/*/*)
	./setup.sh

$(TOOLS): $(READY) # what only tests need, so that a run never asks for it: programs, servers of other versions
	./setup.sh test
	.venv/bin/harness build --clickhouse 18.16,24.8,25.8 --zookeeper 3.8,3.9
	touch $@
