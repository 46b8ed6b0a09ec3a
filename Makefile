# Every command that a contributor or the CI needs. `make` alone lists them.
#
# There is one cargo profile, release, and what belongs together is selected with --workspace: another profile, or a
# single package with fewer features of its C++ dependencies, would compile RocksDB once more.

CARGO  ?= cargo
ROUNDS ?= 30
SECONDS ?= 120

.DEFAULT_GOAL := help
.PHONY: help deps build demo demo-kafka quickstart test lint ci kill-test bench bench-peers bench-takeover bench-yaml kill-test-single soak kafka-fetch kafka-up kafka-down

help: ## Lists the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

deps: ## Installs missing Debian packages (as root) and the Rust toolchain
	@scripts/install-packages.sh

build: deps ## Compiles everything
	$(CARGO) build --release --workspace --all-targets --locked

demo: deps ## Runs the demonstration: no Kafka needed
	$(CARGO) run --release --locked -p keyfold-service -- demo

demo-kafka: deps kafka-fetch ## Runs the demonstration on a Kafka broker of its own
	$(CARGO) build --release --locked -p keyfold-service
	scripts/demo-kafka.sh

quickstart: deps kafka-fetch ## Runs a pipeline in YAML on a Kafka broker of its own, and shows outputs and metrics
	$(CARGO) build --release --locked -p keyfold-service
	scripts/quickstart.sh

test: build kafka-fetch ## Runs all tests; those with Kafka start brokers of their own
	$(CARGO) test --release --workspace --locked
	$(CARGO) test --release --locked -p keyfold --no-default-features --lib

lint: deps ## Checks formatting, clippy, documentation, shell scripts
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --release --no-deps --workspace --locked
	scripts/lint-files.sh

kill-test: build kafka-fetch ## Kills instances of a job ROUNDS times (default 30) and checks exactly-once
	"$${CARGO_TARGET_DIR:-target}/release/kill-test" --rounds $(ROUNDS)

kill-test-single: build kafka-fetch ## The same with one instance in single mode
	"$${CARGO_TARGET_DIR:-target}/release/kill-test" --rounds $(ROUNDS) --single

soak: build kafka-fetch ## Feeds pipelines with garbage for SECONDS (default 120) and accounts for every record
	"$${CARGO_TARGET_DIR:-target}/release/garbage-soak" --seconds $(SECONDS)

bench-takeover: build kafka-fetch ## Measures the pause of partitions that move between instances, with a million keys
	"$${CARGO_TARGET_DIR:-target}/release/takeover"

bench: build kafka-fetch ## Measures rate, CPU, memory, restart and latency beside a baseline; takes about twenty minutes
	"$${CARGO_TARGET_DIR:-target}/release/bench"

bench-peers: build kafka-fetch ## Measures Kafka Streams and Flink on the same input, with Keyfold beside them; takes about three quarters of an hour
	"$${CARGO_TARGET_DIR:-target}/release/bench" --peers

bench-yaml: build ## Measures a pipeline in YAML beside the same job in Rust
	"$${CARGO_TARGET_DIR:-target}/release/examples/totals_rate" 2000000 3

ci: ## Runs what the CI runs: lint, test, demo, quickstart, kill-test
	@MAKE="$(MAKE)" scripts/ci-steps.sh lint test demo quickstart "kill-test ROUNDS=5"

kafka-fetch: deps ## Fetches the jars of Kafka into .kafka/lib
	@scripts/kafka/fetch.sh

kafka-up: deps ## Starts a Kafka broker (KAFKA_PORT, default 9092; KAFKA_DIR, default .kafka/broker)
	@scripts/kafka/up.sh

kafka-down: ## Stops it; the data stays
	@scripts/kafka/down.sh
