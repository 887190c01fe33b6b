# A fresh machine needs only `make run` or `make test`.
.PHONY: run spark test test-rust test-python check check-python check-rust bench wheel clean

# What steps leave behind when they are done: for runs the modules and the images, for checks the
# linters, for tests the servers of other versions and a browser.
READY := .venv/.ready
MODULES := .venv/.modules
LINTERS := .venv/.linters
SERVERS := .venv/.servers
# Without make's own jobs, which cargo would wait for.
CARGO := env --unset=MAKEFLAGS --unset=MFLAGS cargo
# Keep bytecode even where the environment forbids it, as images of Python do: tests start hundreds
# of processes, and each would spend a second on compiling what it imports.
export PYTHONDONTWRITEBYTECODE :=
# Servers of the tests, whose images are built while the Rust modules are compiled; ZooKeeper 3.9
# comes out of pyspark, which is installed later.
IMAGES := --clickhouse 18.16,24.8,25.8 --object-store
PYTHON_ROOMS := distribution crates harness workloads nemesis checkers compose tests benches

run: $(READY)  ## run 30 s of faults on real servers (simulated ones without a Docker engine) and print a verdict
	.venv/bin/harness run --cluster auto --nemesis partition --time-limit 30 || [ $$? -le 2 ] # 0 to 2 are verdicts

spark: $(READY)  ## install Java and pyspark, to judge whole stores on Spark
	./setup.sh spark

test test-python: export HARNESS_IMAGES := $(IMAGES)
test:  ## run everything that CI runs; Rust's tests while the modules and the images are built
	./setup.sh tools
	$(MAKE) --jobs 2 test-rust test-python

test-rust:
	$(CARGO) test --quiet

test-python: $(READY)
	$(MAKE) check $(SERVERS)
	.venv/bin/pytest -q -n 4 --dist loadfile --no-loadscope-reorder

check: check-python check-rust  ## check format, lint, types and the direction of imports; needs no images

check-python: $(LINTERS)
	.venv/bin/ruff format --check $(PYTHON_ROOMS)
	.venv/bin/ruff check $(PYTHON_ROOMS)
	.venv/bin/mypy
	.venv/bin/lint-imports

check-rust: $(LINTERS)
	$(CARGO) fmt --all --check
	$(CARGO) clippy --quiet --release --workspace --features python --all-targets -- -D warnings

bench: $(READY)  ## run the benchmarks; GRID=--quick runs fewer
	.venv/bin/python -m benches.interpreter
	.venv/bin/python -m benches.reads
	.venv/bin/python -m benches.timeline
	.venv/bin/python -m benches.explorer
	.venv/bin/python -m benches.sim
	.venv/bin/python -m benches.serve
	.venv/bin/python -m benches.porcupine
	.venv/bin/python -m benches.fleet 100 1000
	.venv/bin/python -m benches.porcupine_grid $(GRID)

wheel: $(MODULES)  ## build the wheel of pyporcupine for every Linux, and try it in an empty environment
	.venv/bin/pip install -q -r constraints-wheel.txt
	.venv/bin/python distribution/checker_wheel.py --manylinux

clean:  ## remove what runs left in Docker, then everything that was built
	[ ! -x .venv/bin/harness ] || .venv/bin/harness clean
	rm -rf .venv target harness/native/*.so .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

SOURCES := pyproject.toml constraints.txt setup.sh distribution/wheel_backend.py Cargo.toml $(wildcard crates/*/Cargo.toml) $(shell find crates/*/src crates/porcupine/python -type f -not -name "*.pyc")

$(READY): $(SOURCES) $(wildcard compose/images/*/*)
	./setup.sh

$(MODULES): $(SOURCES)
	./setup.sh modules

$(LINTERS): $(MODULES) constraints-spark.txt constraints-dev.txt
	./setup.sh check
	touch $@

# Servers of other versions, the newest engine, and what is otherwise compiled when it is needed.
$(SERVERS): $(READY) $(LINTERS)
	./setup.sh test
	.venv/bin/harness build $(IMAGES) --zookeeper 3.8,3.9.3,3.9
	.venv/bin/python -m harness.clusters.embedded_engine
	.venv/bin/python -m harness.clusters.programs
	.venv/bin/python -m harness.native.explorer
	touch $@
