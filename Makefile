# The two commands: `make demo` builds and runs the main job, `make test` runs every check.
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

.PHONY: help build demo test dist test-dist fuzz site bench bench-http bench-overload bench-neighbours bench-load bench-engine bench-embedded bench-documents bench-opening bench-cluster bench-stores bench-space bench-profiles bench-allocators study-rocksdb soak soak-profiles soak-resets attack real-disks crashes planted-bugs sanitizers simulation

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

build: ## Build the binary, target/release/pellucid
	@scripts/need
	$(CARGO) build --release --locked -p pellucid

demo: ## Fill a store, load it, and say where the time went; compiled quickly, and without rings (DEMO='--full' for flags)
	@scripts/need
	@echo "compiling, which takes some four minutes the first time"
	$(CARGO) run -q --profile demo --locked -p pellucid --no-default-features --features laboratory -- demo $(DEMO)

test: ## Run the checks and tests of every change
	@scripts/test

dist: ## Static binaries, Debian packages, images, bills of materials, in target/dist (ARCHITECTURES='x86_64 aarch64')
	@CARGO=$(CARGO) packaging/dist $(ARCHITECTURES)

test-dist: ## As root: the package of make dist installed, used, upgraded under load and removed in a clean Debian tree; its images run
	@scripts/need python3 dpkg-deb mmdebstrap ip podman openssl
	@packaging/test-package $${CARGO_TARGET_DIR:-target}/dist/pellucid_*_$$(dpkg --print-architecture).deb
	@for image in $${CARGO_TARGET_DIR:-target}/dist/pellucid-*-oci.tar; do packaging/test-image "$$image"; done

site: ## The documentation as a site with search, its links checked, in target/site
	@CARGO=$(CARGO) scripts/site

fuzz: ## Fuzz every decoder (SECONDS_PER_TARGET=60)
	@fuzz/run $(SECONDS_PER_TARGET)

planted-bugs: ## Bugs planted in the storage engine one at a time: its tests have to find each (BUGS='--only NAME' for flags)
	@scripts/need python3
	@CARGO=$(CARGO) scripts/planted-bugs $(BUGS)

simulation: ## The engine's threads, in orders drawn from seeds, cut off at any call to the files (SEEDS=0..10000)
	PELLUCID_SEEDS=$(SEEDS) $(CARGO) test --locked -p pellucid-engine --test engine simulated_threads:: -- --nocapture

sanitizers: ## The lock-free pieces under Miri, the engine's threads under both sanitizers (nightly toolchain; SANITIZERS='miri')
	@scripts/sanitizers $(SANITIZERS)

real-disks: build ## As root: a store on file systems whose medium fails or is full (ext4, XFS, btrfs on loop devices)
	@scripts/real-disks

crashes: build ## 500 kills of the server, and as root 100 losses of power each on ext4, XFS and btrfs under writers (CRASHES='--kills 50' for flags)
	@scripts/need python3
	@scripts/crashes $(CRASHES) $${CARGO_TARGET_DIR:-target}/release/pellucid

attack: ## The attack suite on the release build: nobody else waits for more than 50 ms
	PELLUCID_ATTACKS_STRICT=1 $(CARGO) test --release --locked -p pellucid --test program attacks:: -- --nocapture

bench: ## Every benchmark beside its peers, and one page that begins with where we lose (some hours; QUICK=1 for short)
	@scripts/bench

bench-http: build ## CPU per request and latency beside nginx and a bare loop, HTTP/2 too; accounting (QUICK=1 for short)
	@scripts/need nginx wrk h2load taskset
	$(CARGO) run -q --profile demo --locked -p pellucid-bench -- http

bench-overload: build ## Twice the load that the server can bear, and what is after it (QUICK=1 for short)
	@scripts/need taskset
	$(CARGO) run -q --profile demo --locked -p pellucid-bench -- overload

bench-neighbours: build ## What reads in memory notice of reads from the disk and of merges (QUICK=1 for short)
	@scripts/need taskset
	$(CARGO) run -q --profile demo --locked -p pellucid-bench -- neighbours

bench-space: ## Space on the disk against bytes written, at each share of dead bytes from which on segments are collected (QUICK=1 for short)
	$(CARGO) run -q --profile demo --locked -p pellucid-bench -- space

bench-cluster: build ## What forwarding to another node costs, and a node that is killed or hangs (QUICK=1 for short)
	@scripts/need wrk taskset
	$(CARGO) run -q --profile demo --locked -p pellucid-bench -- cluster

bench-stores: build ## The stores over RocksDB and Cassandra beside RocksDB and the driver themselves (QUICK=1)
	@CARGO=$(CARGO) scripts/bench-stores

bench-load: build ## The load generator beside wrk, on nginx, and beside what a server notes (QUICK=1 for short)
	@scripts/need nginx wrk taskset
	$(CARGO) run -q --profile demo --locked -p pellucid-bench -- load

bench-profiles: build ## What profiling costs, and how much of the processor time it explains (QUICK=1)
	@scripts/need wrk taskset
	$(CARGO) run -q --profile demo --locked -p pellucid-bench -- profiles

bench-allocators: build ## The server over jemalloc and mimalloc beside the system's allocator (QUICK=1)
	@scripts/need wrk taskset
	$(CARGO) run -q --profile demo --locked -p pellucid-bench -- allocators

study-rocksdb: ## Study entity on Pellucid's engine and on the system's RocksDB, side by side (STUDY='--quick' for flags)
	@ROCKSDB_LIB_DIR=$$(scripts/find-rocksdb); export ROCKSDB_LIB_DIR; \
	$(CARGO) run -q --release --locked -p pellucid --features rocksdb -- study entity --engine embedded,rocksdb $(STUDY)

soak-profiles: ## All profilers at ten times their rates under TLS, flushes and merges, for half an hour (SOAK_SECONDS=1800)
	PELLUCID_SOAK_SECONDS=$(SOAK_SECONDS) $(CARGO) test --release --locked -p pellucid-server --test profiles_soak -- --nocapture

bench-engine: ## The engine beside RocksDB, fjall, LMDB and redb, on the studies' work (QUICK=1, RUNS=, KEYS=, PEERS=, WORK=)
	@CARGO=$(CARGO) lab/bench/engine/run

bench-embedded: ## The table of the engine's README: five embedded stores, a million puts (QUICK=1, RUNS=, KEYS=, PEERS=)
	@CARGO=$(CARGO) lab/bench/engine/run table

bench-opening: ## The search for strays behind a tear, in values that look like records throughout
	$(CARGO) test -q --release --locked -p pellucid-engine --lib -- --nocapture a_search_reads_no_more

bench-documents: build ## Import, scan and query of documents beside SQLite and entity GETs (QUICK=1 for short)
	@scripts/need python3 taskset
	$(CARGO) run -q --profile demo --locked -p pellucid-bench -- documents

soak: ## The built server under mixed load, with every answer compared and flat figures (MINUTES=30)
	PELLUCID_SOAK_SECONDS=$$(($(MINUTES) * 60)) $(CARGO) test --release --locked -p pellucid --test program soak:: -- --nocapture

soak-resets: ## Connections to the built server that end anywhere, beside eight that are watched (SOAK_SECONDS=1800)
	PELLUCID_SOAK_SECONDS=$(SOAK_SECONDS) $(CARGO) test --release --locked -p pellucid --test program resets:: -- --nocapture
