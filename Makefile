# What people run. `make run` and `make test` need a fresh machine with Rust and nothing else: they install the missing Debian
# packages when root, and name them otherwise. Build products go outside the checkout, so that repeated runs are warm.
SHELL := /bin/bash
export CARGO_TARGET_DIR := $(shell infra/target)
BIN := $(CARGO_TARGET_DIR)/debug
DATA ?= data
LISTEN ?= 127.0.0.1:8480
# What a broker's JVM does by default: for a test of seconds the harness has it compile less.
JIT := -XX:+TieredCompilation
SIM ?= sites=2,devices=200,seed=1

.PHONY: help run build test quick lint labs contract crash kafka downstream chaos bench docs setup

help: ## what can be made
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: ## install what building needs (C compiler, make, pkg-config, OpenSSL, zlib)
	@infra/setup build

build: setup ## build everything
	cargo build --locked --workspace

run: build ## one process with a simulated world, on loopback; ends in a URL
	@mkdir -p -m 700 $(DATA) && mkdir -p $(DATA)/bin && ln -sf $(BIN)/fmctl $(BIN)/fleet-manager $(DATA)/bin/
	$(BIN)/fleet-manager dev --data $(DATA) --listen $(LISTEN) --sim $(SIM)

test: build ## every test that needs no outside system
	infra/test

quick: setup ## tests of the crates that differ from main, and tidy
	infra/test --quick

lint: setup ## formatting, clippy, shell scripts
	cargo fmt --all --check
	cargo fmt --check --manifest-path tests/peers/Cargo.toml
	cargo clippy --locked --workspace --all-targets -- -D warnings
	infra/lint

labs: build ## against the real NetBox and SLURM (root; starts and stops them)
	tests/labs/run

contract: build ## schemathesis over the whole API (Python packages from PyPI, pinned, in a venv of its own)
	tests/contract/run

crash: build ## kill -9 at 200 random instants under load (ROUNDS=200 FM_SEED=…)
	FM_CRASH_ROUNDS=$(or $(ROUNDS),200) cargo test --locked --workspace --test crash -- --nocapture

kafka: build ## against real Kafka brokers: the log, the journal, 20 kills, what a cluster can do (root; starts and stops them)
	tests/kafka/run

downstream: build ## a consumer in Python builds its own table from the public topics
	tests/downstream/run

chaos: build ## release build; two hubs and three brokers under load, something killed or paused every 10 s (FOR=600 seconds, RATE=1500, FM_SEED=…)
	cargo build --locked --release -p fleet-manager --bins
	KAFKA_LAB_JAVA=$(JIT) FM_BINARIES=$(CARGO_TARGET_DIR)/release FM_PYTHON=$$(tests/downstream/python) FM_CHAOS_SECONDS=$(or $(FOR),600) FM_CHAOS_RATE=$(or $(RATE),1500) cargo test --locked --workspace --test chaos -- --nocapture

bench: setup ## measure, and print the table of docs/BENCHMARKS.md
	cargo build --locked --release -p fleet-manager -p fleet-tests --bins
	cargo build --locked --release --manifest-path tests/peers/Cargo.toml
	KAFKA_LAB_JAVA=$(JIT) $(CARGO_TARGET_DIR)/release/bench

docs: ## check the documents: links, generated tables, review dates
	cargo test --locked --workspace --test main -- tidy documents
