# Two commands set everything up: `make demo` and `make test`.
# The rest are parts of them, or slower work that they leave out.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
CARGO ?= cargo
# Histories of arrays that tests and benches serve.
export STATE_DIRECTORY := $(CURDIR)/target/state
# Counts the parts of `make test`, and those that an ordinary user can't run.
PART := bash tests/part.sh

.PHONY: archive demo test tools extending programs build binary format lint unit documented reference schema accuracy book deb deb-test wheel explore torture mutants simkernel simkernel-mutants \
	store clients attack attack-short clients-self-test ublk smoke package semver module python executors notebooks bench studio studio-fuzz studio-pictures bench-arrays bench-against-md

## Builds a binary quickly, runs the first-look study on this machine's own disk and files, and plans an array of hardware on sale.
demo:
	$(CARGO) build --profile demo --locked -p raidlab-cli
	./target/demo/raidlab study studies/first-look.toml --report first-look.html --db first-look.sqlite
	./target/demo/raidlab plan --app storagebench-database --usable 20TB --iops 20000 --bound 'p99<=2ms' --years 5 --written-per-day 2TB \
		--kinds nvme --search-time 10s --report first-look-plan.html >/dev/null
	@echo "Open first-look.html and first-look-plan.html in a browser; they need no network." >&2

## Everything that must hold: format, lints, tests, documentation, and a short run of the real binary.
# Three at a time: most of what follows the build waits for servers, disks and guests.
test: tools format lint
	$(MAKE) --no-print-directory -j3 -Otarget unit smoke documented store python clients attack-short ublk studio
	@$(PART) --end

tools:
	@$(PART) --begin
	@command -v cc >/dev/null || { echo "error: no C compiler: SQLite is built from source; install gcc" >&2; exit 1; }
	@$(CARGO) fmt --version >/dev/null 2>&1 || rustup component add rustfmt
	@$(CARGO) clippy --version >/dev/null 2>&1 || rustup component add clippy

build:
	$(CARGO) build --release --locked -p raidlab-cli
	strip --strip-debug target/release/raidlab

## One program that needs no library of the system, for any Linux on this kind of processor, in target/raidlab-VERSION-ARCH.tar.gz; some
## ten minutes. STATIC_PROFILE=dist makes a smaller one in twice the time.
STATIC_PROFILE ?= release
archive:
	CARGO=$(CARGO) bash packaging/archive.sh $(STATIC_PROFILE) target

format:
	$(CARGO) fmt --all --check

# One build for lints, documentation, tests and the scripts' binary (tests/rustc.sh).
LINTED := env MAKEFLAGS= RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/tests/rustc.sh CLIPPY_ARGS=-Dwarnings $(CARGO)
EVERYTHING := --workspace --features raidlab-cli/ublk,raidlab-cli/mpi --locked

# Installs the programs that builds with all features and their scripts need, as root.
programs:
	bash tests/clients/setup.sh

# What fuzzes is outside the workspace, whose changes leave its list of crates behind.
lint: programs
	$(CARGO) metadata --manifest-path fuzz/Cargo.toml --locked --format-version 1 >/dev/null
	$(LINTED) test $(EVERYTHING) --no-run

# target/debug/raidlab with all its features, for the scripts that run it: as the tests are built, or some crates would be twice.
binary: lint

# One seed, so that a run can be repeated; `make explore` draws new cases. Many tests wait, so more of them run at once than there
# are processors.
unit: programs
	PROPTEST_RNG_SEED=2026 RUST_TEST_THREADS=6 $(PART) --name unit $(LINTED) test $(EVERYTHING) --lib --bins --tests
	$(PART) --name examples $(LINTED) test $(EVERYTHING) --doc

## Property tests on new random cases, ten times as many, the long soak of the controller, and the plans of docs/planning.md; takes some
## ten minutes.
explore:
	PROPTEST_CASES=2560 $(CARGO) test --workspace --locked --release
	$(CARGO) test -p raidlab-controller -p raidlab-torture -p raidlab-sim -p raidlab-calibrate --release --locked -- --ignored
	$(CARGO) test -p raidlab-planning --lib --release --locked -- --ignored

## The long campaign: random arrays under load and faults, every byte checked. MINUTES of each mode, on all processors.
MINUTES ?= 60
torture: build
	./target/release/raidlab torture --seed 1 --minutes $(MINUTES) --mode bounded
	./target/release/raidlab torture --seed 1 --minutes $(MINUTES) --mode beyond

## Gives the core deliberate defects, one at a time, each of which the torture net must find. ARGS="--list" tells them.
mutants:
	$(CARGO) run --quiet --locked -p raidlab-torture --example mutants -- $(ARGS)

## The runtime and the export on a simulated kernel, one seed after the other. ARGS="--seconds 3600 --seed 7", or stored plans.
simkernel:
	$(CARGO) run --quiet --locked -p raidlab-simkernel --example simkernel -- $(ARGS)

## Gives the runtime and the export deliberate defects, one at a time, each of which `make simkernel` must find.
simkernel-mutants:
	$(CARGO) run --quiet --locked -p raidlab-simkernel --example simkernel-mutants -- $(ARGS)

## Real clients on a real array, members failing and the server being killed (docs/clients.md); without root some are skipped.
clients: binary
	RAIDLAB=target/debug/raidlab $(PART) bash tests/clients/array.sh
	$(PART) bash tests/clients/members.sh target/debug/raidlab
	$(PART) bash tests/clients/moment.sh target/debug/raidlab
	$(PART) bash tests/clients/devices.sh target/debug/raidlab
	$(PART) bash tests/clients/fuse.sh target/debug/raidlab
	$(PART) bash tests/clients/nfs.sh target/debug/raidlab
	$(PART) bash tests/clients/xrootd.sh target/debug/raidlab
	$(PART) bash tests/clients/hosts.sh target/debug/raidlab

## Attacks served arrays: CRASHES of them, and much more, from SEED on (docs/torture.md); installs nbdkit, needs root.
CRASHES ?= 1000
SEED ?= 1
attack: binary
	bash tests/attack/setup.sh target/attack
	/usr/bin/python3 tests/attack/attack.py target/debug/raidlab target/attack/volatile.so --crashes $(CRASHES) --seed $(SEED)

attack-short: binary
	bash tests/attack/setup.sh target/attack
	$(PART) /usr/bin/python3 tests/attack/attack.py target/debug/raidlab target/attack/volatile.so --short --seed $(SEED)

## An array as a block device of Debian's kernel in a guest (docs/clients.md); downloads it once, takes less than a minute.
ublk: binary
	$(PART) bash tests/clients/ublk.sh target/debug/raidlab

## The studio's pages in Chromium, its API fuzzed from its description, metrics as Prometheus reads them (docs/studio.md).
studio: binary
	bash tests/studio/setup.sh
	$(PART) python3 tests/studio/pages.py target/debug/raidlab
	$(PART) python3 tests/studio/lighthouse.py target/debug/raidlab
	$(PART) python3 tests/studio/metrics.py target/debug/raidlab
	$(PART) python3 tests/studio/fuzz.py target/debug/raidlab 20

## Fuzzes the studio's API for SECONDS, with a new seed.
SECONDS_OF_FUZZ ?= 600
studio-fuzz: binary
	bash tests/studio/setup.sh
	python3 tests/studio/fuzz.py target/debug/raidlab $(SECONDS_OF_FUZZ) $$RANDOM

## Keeps a picture of each of the studio's pages in target/studio/.
studio-pictures: binary
	bash tests/studio/setup.sh
	mkdir -p target/studio
	python3 tests/studio/pages.py target/debug/raidlab target/studio

## Proves that the scripts of tests/clients notice a server that lies (docs/clients.md); needs root, takes some minutes.
clients-self-test:
	bash tests/clients/setup.sh
	bash tests/clients/self-test.sh

## DuckDB, pandas and Polars, from PyPI, on the tables of a results file; runs of the real fio taken in. Installs them once.
store: binary
	$(PART) bash tests/store/parquet.sh target/debug/raidlab
	$(PART) bash tests/store/fio.sh target/debug/raidlab

## The package of Python (docs/python.md) on the module that the build of the tests made: pytest, mypy, frame libraries.
# A module has no test of its own, so `lint` leaves it out; beside the tests it is built on what they have built.
module: binary
	$(LINTED) build $(EVERYTHING) --lib --tests

python: module
	$(PART) bash tests/python/run.sh target/debug/raidlab

## Sweeps on local clusters of Dask and Ray, workers killed in the middle; installs both, some 400 MB.
executors: module
	$(PART) bash tests/python/executors.sh target/debug/raidlab

## Runs the notebooks of docs/notebooks, and leaves them as pages in target/notebooks; installs Jupyter and Dask.
notebooks: module
	$(PART) bash tests/python/notebooks.sh target/debug/raidlab

## The diffs of docs/extending.md on a copy of the sources: they apply, build and do what they say. `make test` only applies them.
extending: binary
	$(PART) bash tests/extending.sh

# The crates that others can build on: what `raidlab` needs, and the NBD protocol.
PUBLISHED := $(addprefix -p raidlab-,advisor calibrate controller format hardware hosts nbd papers planning raid sim trace units workload worlds) -p raidlab

## Packs the crates that can be published, and builds each from the packages alone.
package:
	$(CARGO) package $(PUBLISHED) --locked

## Compares the interfaces of these crates with those at SINCE: the last tag, or the commit before where there is none. What breaks users
## needs a new version. Builds cargo-semver-checks the first time.
SINCE ?= $(shell git describe --tags --abbrev=0 2>/dev/null || echo HEAD~1)
semver:
	@test -x target/tools/bin/cargo-semver-checks || $(CARGO) install cargo-semver-checks --locked --version 0.51.0 --debug --root target/tools
	PATH=$(CURDIR)/target/tools/bin:$$PATH $(CARGO) semver-checks $(PUBLISHED) --baseline-rev $(SINCE)

smoke: binary
	bash tests/extending.sh --fit
	$(CARGO) package $(PUBLISHED) --locked --no-verify --quiet
	target/debug/raidlab doctor
	target/debug/raidlab reproduce list

## Runs every command that the README and docs/ tell people to type, on small stand-ins (tests/docs/pages.toml).
documented: binary
	$(PART) python3 tests/docs/run.py target/debug/raidlab

## Renews docs/reference.md from the command line's own table.
reference:
	$(CARGO) run --locked -q -p raidlab-cli -- reference markdown >target/reference.md
	mv target/reference.md docs/reference.md

## Renews docs/schema.md from the types of the answers.
schema:
	$(CARGO) run --locked -q -p raidlab-cli -- reference answers >target/schema.md
	mv target/schema.md docs/schema.md

## Renews docs/accuracy.md: all five publications against their predictions; takes some minutes.
accuracy: build
	python3 bench/accuracy.py target/release/raidlab >target/accuracy.md
	mv target/accuracy.md docs/accuracy.md

## The pages of docs/ as a book, target/book/index.html; builds mdBook the first time, which takes some minutes.
book:
	@test -x target/tools/bin/mdbook || $(CARGO) install mdbook --locked --version 0.4.52 --root target/tools
	target/tools/bin/mdbook build

## A Debian package, in target/, with its symbols in a file beside; needs dpkg-dev. Optimises as a whole, which takes long.
deb:
	$(CARGO) build --profile dist --locked -p raidlab-cli
	bash packaging/debian/build.sh target/dist/raidlab target

## A wheel of the program and the package of Python, in target/, which pip installs; needs Python's venv. WHEEL_PROFILE=demo makes one
## in minutes.
WHEEL_PROFILE ?= dist
wheel:
	CARGO=$(CARGO) bash packaging/python/wheel.sh $(WHEEL_PROFILE) target
	target/wheel/bin/pip --quiet install --force-reinstall target/raidlab-*.whl
	target/wheel/bin/raidlab --version
	target/wheel/bin/python -c 'import raidlab; print(raidlab.Catalog())'

## Installs it in a bare Debian, runs it there and removes it; as root, downloads some 60 MB.
deb-test: deb
	bash packaging/debian/test.sh target/raidlab_*_*.deb

## Compares with fio, ISA-L, nbdkit and iperf3 on this machine (installs them if they are missing); takes a few minutes.
bench: build
	bash bench/load-against-fio.sh
	bash bench/simulation-rate.sh
	bash bench/simulation-scale.sh
	bash bench/parity-against-isal.sh
	bash bench/nbd-against-nbdkit.sh
	bash bench/emulated-against-simulated.sh
	bash bench/net-against-iperf3.sh

## Races arrays against what their members allow, over memory and over this disk; times rebuilds; threads for I/O; some seventeen minutes.
bench-arrays: build
	bash bench/array-against-members.sh
	bash bench/rebuild-rate.sh
	bash bench/io-threads.sh

## Races Linux md in a guest over throttled drives; downloads Debian's kernel once, takes some twenty minutes.
bench-against-md: build
	bash bench/array-against-md.sh
