# SPDX-License-Identifier: GPL-2.0-or-later
# OpenHCA. Everything built goes to build/; 'make help' lists the targets.

SHELL := /bin/bash
BUILD := $(abspath $(or $(OHCA_BUILD),build))
export OHCA_BUILD := $(BUILD)
KERNEL ?= stock
GUEST ?= debian13
STAMP := $(BUILD)/stamp
ROOT := $(STAMP)/root
CHECKTOOLS := $(STAMP)/checktools
MAKEFLAGS += --no-print-directory

# What each part is built from. STAMP/PART.files changes with any of it.
FILES_guest := tools/mkguest tools/packages/guest
FILES_image := tools/mkimage tools/guest
FILES_qemu := tools/build-qemu tools/qemu.patch tools/fetch-source $(addprefix qemu-model/,front qemu) firmware-if
FILES_modules := tools/build-modules kernel firmware-if
FILES_provider := tools/build-provider tools/fetch-source userspace firmware-if kernel/include/uapi
FILES_fabric := tools/build-fabric tools/ohca-hub.c $(addprefix qemu-model/,engine front fabric umad link ib vfio-user) firmware-if

.PHONY: all help deps buildroot guest qemu image layer lab modules linux-source debug-kernel provider fabric \
	units lint debug-layer docs deb rpm container check try FORCE campaign mutants soak perftest-matrix matrix apps opensm-suite theory bench demo install clean distclean

all: lab

help:
	@echo 'make demo          build everything, boot two VMs on one fabric, run the tools between them'
	@echo 'make check         run all tests (OHCA_CHECK="units system ...": only these suites)'
	@echo 'make try T=GROUP.TEST  build what has changed and run one system test (KERNEL=debug: on the debug'
	@echo '                   kernel; QEMU=...: in this QEMU)'
	@echo 'make campaign      run attacks with new seeds, each for CAMPAIGN_SECONDS (600);'
	@echo '                   CAMPAIGN="process ...": only these'
	@echo 'make mutants       change lines of PART (all eight) at random and count the changes that its units'
	@echo '                   detect (MUTANTS_COUNT=40 for each part; MUTANTS_SEED=N: the same changes again)'
	@echo 'make bench         measure and write build/bench, unless the machine is busy (BENCH="native ...":'
	@echo '                   only these parts; BENCH_BUSY=1: also if it is busy; BENCH_DOCUMENT=1: write to'
	@echo '                   Documentation/benchmarks, too; BENCH_BESIDE=DIR: compare with this built checkout)'
	@echo 'make soak          run the tests of rdma-core SOAK (20) times in a row'
	@echo 'make perftest-matrix  run every program of perftest with every transport and many options'
	@echo 'make apps          run the commands of recipes, tutorial and course (APPS="ucx nfs": only these pages)'
	@echo 'make theory        measure and draw the figures of Documentation/theory (THEORY="ways ...": only these)'
	@echo 'make opensm-suite  test OpenSM at fabrics with faults (OPENSM=debian12|debian14|PROGRAM: this OpenSM;'
	@echo '                   NAMES="test_lids ...": only these tests)'
	@echo 'make lab           everything that tools/ohca-lab needs (default)'
	@echo '                   (GUEST=debian12|debian14|backports|arm64|s390x: for this --guest;'
	@echo '                   ATTACH=vfio-user: with QEMU of Debian 14, without building one; also for demo)'
	@echo 'make matrix        run tools and tests in the guests of all releases (MATRIX="debian12 ...": only these)'
	@echo 'make deps          install packages that this host lacks'
	@echo 'make buildroot     Debian 13 root in which the rest is built'
	@echo 'make checktools    what tests, static checks, documentation and figures need in this root'
	@echo 'make qemu          QEMU with -device ohca (QEMU=10.2|11.1: this version; QEMU=DIR: the source tree'
	@echo '                   in DIR, which is not changed; QEMU=arm64|s390x: for these guests)'
	@echo 'make fabric        ohca-fabric, ohca-hub, and libohca-umad.so for tools on the host'
	@echo 'make modules       ohca.ko for the guest kernel (KERNEL=debug: for the debug kernel;'
	@echo '                   KERNEL=debian12|debian14|backports|arm64|s390x: for that kernel)'
	@echo 'make provider      the libibverbs provider (RDMA_CORE=44|65: for Debian 12 or 14;'
	@echo '                   RDMA_CORE=arm64|s390x: for these guests;'
	@echo '                   RDMA_CORE=DIR: for the source tree in DIR, which is not changed)'
	@echo 'make guest         root of the guests (GUEST=...: this guest; also for the next two)'
	@echo 'make image         guest root image'
	@echo 'make layer         driver and provider as a layer over the guest image'
	@echo 'make debug-layer   the layer with the debug kernel and its driver: for --kernel debug'
	@echo 'make linux-source  Debian kernel source, for debug-kernel and lint'
	@echo 'make debug-kernel  guest kernel with KASAN, lockdep, KUnit, ...'
	@echo 'make install       fabric, QEMU, ohca-lab, ohca-ufm, ohca-map, ohca-plot, provider and driver source (DESTDIR=, PREFIX=/usr/local;'
	@echo '                   GUEST=debian12|debian14: the provider for this release of the host)'
	@echo 'make rpm           the same as RPM packages, without the documentation'
	@echo 'make deb           Debian packages of the fabric, QEMU, ohca-lab, ohca-ufm, ohca-map, ohca-plot, provider, driver, documentation'
	@echo '                   (GUEST=debian12|debian14: for hosts of this release)'
	@echo 'make container     OCI image with these packages, in which ohca-lab runs'
	@echo 'make units         unit tests of the host side'
	@echo 'make lint          static checks: checkpatch, sparse, kernel-doc, pylint, shellcheck'
	@echo 'make docs          HTML documentation'
	@echo 'make clean         remove built objects, keep roots and fetched sources'
	@echo 'make distclean     remove build/'

FORCE:
$(STAMP)/%.files: FORCE
	@tools/watch $@ $(FILES_$*)

deps: $(STAMP)/deps
$(STAMP)/deps: tools/deps tools/lib.sh
	@tools/deps
	@mkdir -p $(@D) && touch $@

buildroot: $(ROOT)
$(ROOT): tools/packages/buildroot | $(STAMP)/deps
	@tools/mkroot
	@mkdir -p $(@D) && touch $@

checktools: $(CHECKTOOLS)
$(CHECKTOOLS): tools/packages/checktools | $(ROOT)
	@tools/mkroot checktools
	@touch $@

# The guests, with the columns of the table. Usage: $(call guest_column,NAME,COLUMN)
GUEST_TABLE := $(shell awk 'BEGIN { OFS = ":" } !/^\#/ { $$1 = $$1; print }' tools/guests)
guest_column = $(word $2,$(subst :, ,$(filter $1:%,$(GUEST_TABLE))))
GUESTS := $(foreach line,$(GUEST_TABLE),$(firstword $(subst :, ,$(line))))
OTHER_GUESTS := $(filter-out debian13,$(GUESTS))
# Guests of another architecture, and guests that start from the guest of Debian 13.
FOREIGN_GUESTS := $(foreach name,$(GUESTS), \
	$(if $(filter-out amd64,$(call guest_column,$(name),3)),$(name)))
SAME_RELEASE := $(foreach name,$(OTHER_GUESTS), \
	$(if $(filter $(call guest_column,debian13,2),$(call guest_column,$(name),2)),$(name)))

# QEMU is a version, or a source tree, with a slash in its path. Our stamps do not cover its changes.
ifneq ($(findstring /,$(QEMU)),)
qemu: | $(ROOT)
	@tools/build-qemu '$(QEMU)'
else
qemu: $(STAMP)/qemu$(addprefix -,$(filter-out 10.0,$(QEMU)))
endif
$(STAMP)/qemu: $(STAMP)/qemu.files | $(ROOT)
	@tools/build-qemu
	@touch $@
$(STAMP)/qemu-%: $(STAMP)/qemu.files | $(ROOT)
	@tools/build-qemu $*
	@touch $@

# A guest of each release, by its name; that of Debian 13 needs no root of its own for its kernel.
ifeq ($(filter $(GUEST),$(GUESTS)),)
$(error '$(GUEST)' is no guest: GUEST is one of $(GUESTS))
endif
.PRECIOUS: $(STAMP)/%.files $(STAMP)/guest-% $(STAMP)/image-%

guest: $(STAMP)/guest-$(GUEST)
$(SAME_RELEASE:%=$(STAMP)/guest-%): $(STAMP)/image-debian13
$(STAMP)/guest-%: $(STAMP)/guest.files | $(STAMP)/deps
	@tools/mkguest $*
	@mkdir -p $(@D) && touch $@

image: $(STAMP)/image-$(GUEST)
$(OTHER_GUESTS:%=$(STAMP)/image-%): $(STAMP)/image-%: $(STAMP)/suite-%
$(STAMP)/image-%: $(STAMP)/image.files $(STAMP)/guest-% | $(ROOT)
	@tools/mkimage $*
	@touch $@

# Debian's kernel source: for the debug kernel, and for its scripts that check ours.
linux-source: $(STAMP)/linux-source
$(STAMP)/linux-source: | $(ROOT)
	@tools/fetch-linux
	@touch $@

debug-kernel: $(STAMP)/debug-kernel
$(STAMP)/debug-kernel: tools/build-debug-kernel $(addprefix tools/debug-kernel.,config patch groups) | $(STAMP)/linux-source
	@tools/build-debug-kernel
	@touch $@

# Roots of other releases, for their kernels.
.PRECIOUS: $(STAMP)/suite-%
$(STAMP)/suite-%: tools/packages/suite tools/packages/cross tools/mksuite | $(STAMP)/deps
	@tools/mksuite $*
	@mkdir -p $(@D) && touch $@

modules: $(STAMP)/modules-$(KERNEL)
$(STAMP)/modules-stock: $(STAMP)/modules.files | $(ROOT)
	@tools/build-modules stock
	@touch $@
$(STAMP)/modules-debug: $(STAMP)/modules.files $(STAMP)/debug-kernel | $(ROOT)
	@tools/build-modules debug
	@touch $@
$(STAMP)/modules-%: $(STAMP)/modules.files $(STAMP)/suite-%
	@tools/build-modules $*
	@touch $@

ifneq ($(findstring /,$(RDMA_CORE)),)
provider: | $(ROOT)
	@tools/build-provider '$(RDMA_CORE)'
else
provider: $(STAMP)/provider$(addprefix -,$(filter-out 56,$(RDMA_CORE)))
endif
$(FOREIGN_GUESTS:%=$(STAMP)/provider-%): $(STAMP)/provider-%: $(STAMP)/suite-%
$(STAMP)/provider: $(STAMP)/provider.files | $(ROOT)
	@tools/build-provider
	@touch $@
$(STAMP)/provider-%: $(STAMP)/provider.files | $(ROOT)
	@tools/build-provider $*
	@touch $@

fabric: $(STAMP)/fabric
$(STAMP)/fabric: $(STAMP)/fabric.files | $(ROOT)
	@tools/build-fabric
	@touch $@

layer: $(STAMP)/layer-$(GUEST)
$(foreach name,$(GUESTS),$(eval $(STAMP)/layer-$(name): $(addprefix $(STAMP)/, \
	$(call guest_column,$(name),5) $(call guest_column,$(name),6))))
$(STAMP)/layer-%: tools/mklayer $(STAMP)/image-%
	@tools/mklayer $*
	@touch $@

# The layer once more, with the debug kernel's modules in it.
debug-layer: $(STAMP)/debug-layer
$(STAMP)/debug-layer: $(STAMP)/modules-debug $(STAMP)/layer-debian13
	@tools/mklayer
	@touch $@

# Adapters are in our QEMU, or in processes for Debian's QEMU.
ATTACH ?= qemu
ifeq ($(filter $(ATTACH),qemu vfio-user),)
$(error '$(ATTACH)' is no way to attach adapters: ATTACH is qemu or vfio-user)
endif
$(STAMP)/stock-qemu: tools/mkqemu tools/packages/qemu | $(STAMP)/deps
	@tools/mkqemu
	@mkdir -p $(@D) && touch $@

lab: $(if $(filter vfio-user,$(ATTACH)),$(STAMP)/stock-qemu,$(STAMP)/qemu) $(addprefix $(STAMP)/qemu-,$(filter $(FOREIGN_GUESTS),$(GUEST))) fabric layer

units: $(STAMP)/deps
	@tests/run units

lint:
	@tests/run lint

docs: | $(CHECKTOOLS)
	@tools/in-root sphinx-build -q -W --keep-going -b html Documentation $(BUILD)/docs
	@echo "documentation: $(BUILD)/docs/index.html"

# Packages for hosts of the release in GUEST. The nodes of their ohca-lab are guests of Debian 13.
ifneq ($(and $(filter deb,$(MAKECMDGOALS)),$(filter-out debian%,$(GUEST))),)
$(error 'make deb' wants GUEST=debian12, debian13 or debian14: the release of the host)
endif
deb: $(STAMP)/qemu fabric $(STAMP)/layer-debian13 $(addprefix $(STAMP)/, \
		$(call guest_column,$(GUEST),6) \
		$(addprefix suite-,$(filter $(GUEST),$(OTHER_GUESTS))))
	@tools/mkdeb $(GUEST)

rpm: $(STAMP)/qemu fabric $(STAMP)/layer-debian13
	@tools/mkrpm

container: deb
	@tools/mkcontainer

# Builds what it needs itself, and runs other tests meanwhile.
check: $(STAMP)/deps
	@tests/run $(OHCA_CHECK)

# Builds only what has changed, and runs one test.
ifneq ($(and $(filter try,$(MAKECMDGOALS)),$(if $(T),,no)),)
$(error 'make try' wants a test: T=GROUP.TEST, as 'tests/system/run --list' has them)
endif
try: fabric qemu $(if $(filter debug,$(KERNEL)),debug-layer,layer)
	@$(if $(QEMU),OHCA_QEMU='$(QEMU)') tests/system/run --kernel $(KERNEL) $(T)

soak: lab
	@tests/system/run --repeat $(or $(SOAK),20) pyverbs

# Runs with new seeds for a given time; make check has short runs with fixed seeds.
campaign: lab debug-layer | $(CHECKTOOLS)
	@tests/campaign/run $(if $(CAMPAIGN_SECONDS),--seconds $(CAMPAIGN_SECONDS)) $(CAMPAIGN)

# Writes Documentation/perftest.rst.
perftest-matrix: lab
	@tests/system/perftest-matrix

# Writes Documentation/matrix.rst.
matrix: lab
	@tests/matrix/run $(MATRIX)

# Runs the commands in Documentation/recipes, tutorial and course.
apps: lab | $(CHECKTOOLS)
	@tests/apps/run $(APPS)

# OpenSM of the build root, of another release, or of this host.
opensm-suite: fabric | $(CHECKTOOLS)
	@tests/opensm/suite '$(OPENSM)' $(NAMES)

# Writes the figures of Documentation/theory.
theory: fabric | $(CHECKTOOLS)
	@tools/in-root tests/theory/figures $(THEORY)

# Builds first what it measures.
BENCH_PARTS := $(or $(BENCH),native provider scale machines)
bench: $(if $(filter provider,$(BENCH_PARTS)),$(STAMP)/provider) \
		$(if $(filter scale,$(BENCH_PARTS)),fabric) \
		$(if $(filter machines beside p99,$(BENCH_PARTS)),lab) | $(CHECKTOOLS)
	@tests/bench/run $(if $(BENCH_BUSY),--busy) $(if $(BENCH_DOCUMENT),--document) $(BENCH_PARTS)

# The provider's units need rdma-core's headers.
mutants: | $(CHECKTOOLS) $(if $(filter provider,$(or $(PART),provider)),$(STAMP)/provider)
	@tools/in-root tests/mutants/run --build $(BUILD) $(if $(MUTANTS_SEED),--seed $(MUTANTS_SEED)) \
		$(if $(MUTANTS_COUNT),--count $(MUTANTS_COUNT)) $(if $(JOBS),--jobs $(JOBS)) $(PART)

# The demo is Python, which a fresh host may lack.
demo: $(STAMP)/deps
	@tools/demo --attach $(ATTACH)

# It builds nothing, so that it can run as root.
install:
	@DESTDIR=$(DESTDIR) PREFIX=$(PREFIX) tools/install $(GUEST)

clean:
	rm -rf $(BUILD)/{qemu,modules,provider}-* $(BUILD)/{qemu,provider,fabric,layer,guests/*/layer,tests,docs,deb,rpm}
	rm -f $(STAMP)/{qemu,modules,provider}-* $(STAMP)/{qemu,provider,fabric,layer-*,debug-layer}

distclean:
	tools/distclean
