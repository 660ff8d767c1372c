# SPDX-License-Identifier: MIT
# The front door: what people type. meson.build does the work.
BUILD   ?= build
PREFIX  ?= /usr/local
DESTDIR ?=
THREADS ?= 2,4,8
RECORDS ?= 50000
RUNS    ?= 10

.DEFAULT_GOAL := all
.PHONY: all build demo figures inlining check programs kernel-check install clean help need-build need-demo need-check

all: need-build build

# Recipes below are serial: packages first, then meson, then ninja.
.NOTPARALLEL:

need-build:
	@scripts/need build
need-demo:
	@scripts/need build demo
need-check:
	@scripts/need build demo check served

$(BUILD)/build.ninja:
	@meson setup --prefix=$(PREFIX) -Dtests=disabled $(BUILD) >$(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	@mv $(BUILD).log $(BUILD)/setup.log

build: $(BUILD)/build.ninja
	@ninja -C $(BUILD) --quiet

# Which lock cures an unmodified Debian program: Kyoto Cabinet's own test of its cache database.
demo: need-demo build
	$(BUILD)/src/cli/hotlock try --runs $(RUNS) --vary threads=$(THREADS) \
	    --metric 'time: ([0-9.]+)' --lower-better -- \
	    kccachetest wicked -th '{threads}' -capcnt 10000 $(RECORDS)

# The transcripts in the documents, made again here: about twenty minutes.
figures:
	@scripts/need build demo figures
	@test ! -f $(BUILD)/build.ninja || meson setup --reconfigure $(BUILD) >/dev/null
	@$(MAKE) --no-print-directory build
	@docs/refresh $(BUILD) docs/performance.md
	@docs/refresh $(BUILD) README.md

# The tables of docs/inlining.md, made again here: about two minutes on a quiet machine.
inlining: need-check build
	@scripts/inlining $(BUILD)

check: need-check
	@scripts/check $(BUILD)

# Every variant of the kernel, built, booted and judged: about two hours.
kernel-check: need-build
	@scripts/need kernel
	@$(MAKE) --no-print-directory build
	@$(BUILD)/src/cli/hotlock kernel --build $(BUILD)/kernel

# Real programs and servers, natively and under each lock, then how fast they are under park. Beside
# those of make check one that is large to install: Java. PostgreSQL takes part if it is installed.
programs: need-check
	@scripts/need programs
	@test -f $(BUILD)/build.ninja || meson setup -Dtests=enabled $(BUILD) >/dev/null
	@meson configure -Dtests=enabled $(BUILD)
	@ninja -C $(BUILD) --quiet
	@tests/preload/programs $(BUILD)
	@tests/preload/programs $(BUILD) --measure 7

install: all
	@DESTDIR=$(DESTDIR) meson install -C $(BUILD) --no-rebuild

clean:
	rm -rf $(BUILD) $(BUILD).log

help:
	@echo 'make                  build the library, the preload and the command in $(BUILD)/'
	@echo 'make demo             find the best lock for an unmodified Debian program'
	@echo 'make figures          run the transcripts of README.md and docs/performance.md again'
	@echo 'make inlining         count again what inlining costs, for docs/inlining.md'
	@echo 'make check            run every test; the last line is the count'
	@echo 'make kernel-check     build and boot Linux 6.1 with each of its locks (about two hours)'
	@echo 'make programs         run large programs and servers under each lock, and measure them'
	@echo 'make install          install under PREFIX=$(PREFIX), staged under DESTDIR='
	@echo 'make clean            remove $(BUILD)/'
	@echo 'demo and check install the Debian packages they need (scripts/packages.txt).'
	@echo 'HOTLOCK_STRESS_SECONDS=N make check     longer stress runs (default 2)'
