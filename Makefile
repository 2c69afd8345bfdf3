# Two commands do it all on a fresh Debian machine with Rust: `make demo` and `make test`.
# Both install what they need (see scripts/setup) and say what they do. `make build` installs nothing.

CARGO ?= cargo
PREFIX ?= /usr/local
DESTDIR ?=
LIBDIR ?= $(PREFIX)/lib
# Seconds that each fuzz target runs in `make test`; `make fuzz FUZZ_SECONDS=3600` for a real run.
FUZZ_SECONDS ?= 15
# Seconds that `make soak` takes, a third of them for fuzzing; a night is 28800.
SOAK_SECONDS ?= 3600
# Options for the demo, as in `make demo DEMO="--database-size 200M --memory 100M"`.
DEMO ?=

# What `make build` makes for others to use.
BUILT = target/release/foreseek target/release/libprefetch.so target/release/libforeseek_sqlite.so \
	target/release/libforeseek_sqlite_preload.so

.DEFAULT_GOAL := help
# Where a target installs first, what it builds comes after, also under `make -j`.
.NOTPARALLEL:
.PHONY: help setup needs build demo test lint unit fuzz soak guest bench pages header built install uninstall deb deb-test clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install the packages that building and testing need (Debian: apt)
	@CARGO="$(CARGO)" scripts/setup

needs: ## Say what building, testing and the demo need that is not here; installs nothing
	@CARGO="$(CARGO)" scripts/setup --check

build: ## Build everything, optimised, into target/release
	@CARGO="$(CARGO)" scripts/setup --check build
	$(CARGO) build --release --locked

demo: setup build ## The main job: SQLite on a seeking disk, stock and with Foreseek (under five minutes)
	target/release/foreseek demo --output demo-out $(DEMO)

test: setup ## Linters, all tests, a short run of each fuzz target; ends with a summary
	@FUZZ_SECONDS=$(FUZZ_SECONDS) CARGO="$(CARGO)" scripts/test

lint: ## rustfmt and clippy, warnings are errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

unit: ## The tests alone, without linters and fuzzing
	$(CARGO) test --workspace --locked

fuzz: ## Run every fuzz target for FUZZ_SECONDS each
	@FUZZ_SECONDS=$(FUZZ_SECONDS) CARGO="$(CARGO)" scripts/fuzz

soak: ## Property tests with new seeds and ever more cases, then long fuzzing, for SOAK_SECONDS
	@SOAK_SECONDS=$(SOAK_SECONDS) CARGO="$(CARGO)" scripts/soak

guest: ## Test arrays on Linux md and LVM, walks above these, little memory, and the units at boot, in virtual machines (needs QEMU, root, debootstrap; fetches 150 MB)
	@CARGO="$(CARGO)" scripts/guest-md
	@CARGO="$(CARGO)" scripts/guest-debian

bench: setup build ## Run the benchmarks and keep their raw results under benches/results
	@scripts/bench

pages: ## Write the tables of results in README and docs anew from the raw rows in benches/results
	FORESEEK_WRITE_PAGE=1 $(CARGO) test -p foreseek-bench -p foreseek-reproduce --test page --locked

header: ## Write libprefetch.h anew from the C library's source
	UPDATE_HEADER=1 $(CARGO) test -p foreseek-libprefetch-c --test header

# Builds where something is not built.
built:
	@ls $(BUILT) >/dev/null 2>&1 || $(MAKE) build

install: built ## Install programs, libraries, manual pages, completions and units under PREFIX; builds what is not built
	@PREFIX="$(PREFIX)" LIBDIR="$(LIBDIR)" DESTDIR="$(DESTDIR)" scripts/install

uninstall: ## Remove what install put under PREFIX
	@PREFIX="$(PREFIX)" LIBDIR="$(LIBDIR)" DESTDIR="$(DESTDIR)" scripts/install --remove

deb: built ## Make Debian packages of what is built, in target/deb
	@scripts/deb

deb-test: deb ## Install, use, upgrade and remove the packages in a clean Debian (needs root, debootstrap, a mirror)
	@scripts/deb-test

clean: ## Remove what was built
	$(CARGO) clean
	rm -rf fuzz/target demo-out
