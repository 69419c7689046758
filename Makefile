# The two main commands: `make demo` builds the program and shows it at work, `make test` runs every check.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
CARGO ?= cargo
DEMO ?=
STUDY ?=
BUGS ?=
CRASHES ?=
SECONDS_PER_TARGET ?= 60
ARCHITECTURES ?= x86_64 aarch64
SOAK_SECONDS ?= 1800
MINUTES ?= 30
SEEDS ?= 0..10000
SANITIZERS ?=

.PHONY: help build demo test dist test-dist fuzz site bench bench-http bench-overload bench-neighbours bench-load bench-engine bench-embedded bench-documents bench-opening bench-cluster bench-stores bench-space bench-profiles study-rocksdb soak soak-profiles soak-resets attack real-disks crashes planted-bugs sanitizers simulation

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

build: ## Build the binary, target/release/pellucid
	@scripts/need
	$(CARGO) build --release --locked -p pellucid

demo: ## Fill a store, load it, and show where the time went; a quick build without the Cassandra store (DEMO='--full' for flags)
	@scripts/need
	@echo "compiling, which takes some four minutes the first time"
	$(CARGO) run -q --profile demo --locked -p pellucid --no-default-features --features laboratory -- demo $(DEMO)

test: ## Run the checks and tests of every change
	@scripts/test

dist: ## Make static binaries, Debian packages, images, bills of materials, in target/dist (ARCHITECTURES='x86_64 aarch64')
	@CARGO=$(CARGO) packaging/dist $(ARCHITECTURES)

test-dist: ## As root: install the package of make dist in a clean Debian tree, use it, upgrade it under load, remove it; run the images
	@scripts/need python3 dpkg-deb mmdebstrap ip podman openssl
	@packaging/test-package $${CARGO_TARGET_DIR:-target}/dist/pellucid_*_$$(dpkg --print-architecture).deb
	@for image in $${CARGO_TARGET_DIR:-target}/dist/pellucid-*-oci.tar; do packaging/test-image "$$image"; done

site: ## Build the documentation as a site with search, in target/site, and check its links
	@CARGO=$(CARGO) scripts/site

fuzz: ## Fuzz every decoder (SECONDS_PER_TARGET=60)
	@fuzz/run $(SECONDS_PER_TARGET)

planted-bugs: ## Plant bugs in the storage engine, one at a time: its tests have to find each (BUGS='--only NAME' for flags)
	@scripts/need python3
	@CARGO=$(CARGO) scripts/planted-bugs $(BUGS)

simulation: ## Run the engine's threads in orders drawn from seeds, and end them at any call to the files (SEEDS=0..10000)
	PELLUCID_SEEDS=$(SEEDS) $(CARGO) test --locked -p pellucid-engine --test engine simulated_threads:: -- --nocapture

sanitizers: ## Run the lock-free code under Miri, the engine's threads under both sanitizers (nightly toolchain; SANITIZERS='miri')
	@scripts/sanitizers $(SANITIZERS)

real-disks: build ## As root: test a store on file systems whose medium fails or is full (ext4, XFS, btrfs on loop devices)
	@scripts/real-disks

crashes: build ## Kill the server 500 times during writes, and as root simulate 100 losses of power each on ext4, XFS and btrfs (CRASHES='--kills 50' for flags)
	@scripts/need python3
	@scripts/crashes $(CRASHES) $${CARGO_TARGET_DIR:-target}/release/pellucid

attack: ## Run the attack suite on the release build: no other client may wait for more than 50 ms
	PELLUCID_ATTACKS_STRICT=1 $(CARGO) test --release --locked -p pellucid --test program attacks:: -- --nocapture

bench: ## Run every benchmark with its peers, and make one page that begins with where we lose (some hours; QUICK=1 for short)
	@scripts/bench

bench-http: build ## CPU per request and latency against nginx and a bare loop, also over HTTP/2; the cost of accounting (QUICK=1 for short)
	@scripts/need nginx wrk h2load taskset
	$(CARGO) run -q --profile demo --locked -p pellucid-bench -- http

bench-overload: build ## Load the server with twice its highest stable rate; its state during that and after (QUICK=1 for short)
	@scripts/need taskset
	$(CARGO) run -q --profile demo --locked -p pellucid-bench -- overload

bench-neighbours: build ## The effect of reads from the disk and of merges on reads in memory (QUICK=1 for short)
	@scripts/need taskset
	$(CARGO) run -q --profile demo --locked -p pellucid-bench -- neighbours

bench-space: ## Disk space against bytes written, for several values of --dead-share (QUICK=1 for short)
	$(CARGO) run -q --profile demo --locked -p pellucid-bench -- space

bench-cluster: build ## The cost of forwarding to another node, and of a node that is killed or hangs (QUICK=1 for short)
	@scripts/need wrk taskset
	$(CARGO) run -q --profile demo --locked -p pellucid-bench -- cluster

bench-stores: build ## The stores over RocksDB and Cassandra against RocksDB and the driver themselves (QUICK=1)
	@CARGO=$(CARGO) scripts/bench-stores

bench-load: build ## The load generator against wrk, on nginx, and against the delays that a server records (QUICK=1 for short)
	@scripts/need nginx wrk taskset
	$(CARGO) run -q --profile demo --locked -p pellucid-bench -- load

bench-profiles: build ## The cost of profiling, and the share of processor time that it attributes (QUICK=1)
	@scripts/need wrk taskset
	$(CARGO) run -q --profile demo --locked -p pellucid-bench -- profiles

study-rocksdb: ## Run the study `entity` on Pellucid's engine and on the system's RocksDB, side by side (STUDY='--quick' for flags)
	@ROCKSDB_LIB_DIR=$$(scripts/find-rocksdb); export ROCKSDB_LIB_DIR; \
	$(CARGO) run -q --release --locked -p pellucid --features rocksdb -- study entity --engine embedded,rocksdb $(STUDY)

soak-profiles: ## Run all profilers at ten times their rates under TLS, flushes and merges, for half an hour (SOAK_SECONDS=1800)
	PELLUCID_SOAK_SECONDS=$(SOAK_SECONDS) $(CARGO) test --release --locked -p pellucid-server --test profiles_soak -- --nocapture

bench-engine: ## The engine against RocksDB, fjall, LMDB and redb, with the loads of the studies (QUICK=1, RUNS=, KEYS=, PEERS=, WORK=)
	@CARGO=$(CARGO) lab/bench/engine/run

bench-embedded: ## Make the table of the engine's README: five embedded stores, a million puts (QUICK=1, RUNS=, KEYS=, PEERS=)
	@CARGO=$(CARGO) lab/bench/engine/run table

bench-opening: ## The time of the search for valid records behind a torn one, in values full of data that looks like records
	$(CARGO) test -q --release --locked -p pellucid-engine --lib -- --nocapture a_value_that_looks_like_records

bench-documents: build ## Import, scan and query of documents against SQLite and entity GETs (QUICK=1 for short)
	@scripts/need python3 taskset
	$(CARGO) run -q --profile demo --locked -p pellucid-bench -- documents

soak: ## Run the built server under mixed load, compare every answer, and check that its figures stay flat (MINUTES=30)
	PELLUCID_SOAK_SECONDS=$$(($(MINUTES) * 60)) $(CARGO) test --release --locked -p pellucid --test program soak:: -- --nocapture

soak-resets: ## Break connections to the built server at any point, and watch eight others meanwhile (SOAK_SECONDS=1800)
	PELLUCID_SOAK_SECONDS=$(SOAK_SECONDS) $(CARGO) test --release --locked -p pellucid --test program resets:: -- --nocapture
