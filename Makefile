# SPDX-License-Identifier: GPL-2.0
# SUPERp for Linux. "make help" lists what there is.

KDIR ?= /lib/modules/$(shell uname -r)/build
# Where the module's objects go: one folder for each kernel.
OUT ?= build/native
# The virtual machine of "make demo", "make demo-fabric" and "make vm": qemu, uml or debug.
VMHOME ?= qemu
HOMES := stock uml debug
VM := selftests/vm

.PHONY: modules modules_install install kernel-tree clean help programs programs_install module_source_install deb demo demo-fabric check check-long vm lint conformance bench bench-core mutants \
	update-kernel distclean $(HOMES:%=modules-%)

# The tree in which the module is built: KDIR, or the one that is made of Debian's headers, where those are KDIR. It is
# remembered, so that "make install" of another user takes the same. RUSTC=, BINDGEN= choose other compilers.
find_tree = tree=; \
	if [ ! -e '$(KDIR)/rust/libkernel.rmeta' ] && [ -e $(OUT)/tree/rust/libkernel.rmeta ] && \
			cmp -s '$(KDIR)/include/config/kernel.release' $(OUT)/tree/include/config/kernel.release && \
			cmp -s '$(KDIR)/Module.symvers' $(OUT)/tree/Module.symvers; then \
		tree=$$(readlink -f $(OUT)/tree); \
	else \
		tree=$$(scripts/prepare-kernel '$(abspath $(KDIR))') || exit; \
		mkdir -p $(OUT); \
		ln -sfn "$$tree" $(OUT)/tree; \
	fi; \
	tools=$$(cat "$$tree/make-arguments" 2>/dev/null)

modules:
	@$(find_tree); $(MAKE) -C "$$tree" M=$(CURDIR) MO=$(abspath $(OUT)) $$tools modules

install: modules_install programs_install
modules_install: modules
	@$(find_tree); $(MAKE) -C "$$tree" M=$(CURDIR) MO=$(abspath $(OUT)) $$tools modules_install

# Lays the module into the source tree of a kernel, DIR.
kernel-tree:
	@scripts/kernel-tree '$(DIR)'

# The module for a kernel of the rig, built in its Debian 13 folder.
$(HOMES:%=modules-%): modules-%:
	@$(VM)/modules $*

# The programs and the library for this machine, with manual pages and completions, in $(PROGRAMS); by its
# own cargo.
PROGRAMS ?= build/programs
# Of cargo.
PROFILE ?= release
built := $(PROGRAMS)/$(PROFILE:dev=debug)
# What "superp run" preloads is made of the headers of libibverbs and librdmacm.
VERBS := $(and $(wildcard /usr/include/infiniband/verbs.h),$(wildcard /usr/include/rdma/rdma_cma.h))
# What the manager speaks with etcd is made by protoc.
PROTOC := $(shell command -v protoc)
programs:
	cargo build --profile $(PROFILE) --locked --workspace $(if $(VERBS),,--exclude superp-shim) $(if $(PROTOC),,--exclude superp-cm) --manifest-path userspace/Cargo.toml --target-dir $(PROGRAMS)
	rm -rf $(PROGRAMS)/share
	for program in superp superp-agent $(if $(PROTOC),superp-cm); do \
		$(built)/$$program generate man $(PROGRAMS)/share/man/man1 && \
		$(built)/$$program generate completions $(PROGRAMS)/share/completions || exit; done
	userspace/libsuperp/link $(built)
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' userspace/libsuperp/libsuperp.pc.in >$(PROGRAMS)/libsuperp.pc
	for unit in agent/superp-agent manager/superp-cm; do \
		sed 's|/usr/local/|$(PREFIX)/|' userspace/$$unit.service >$(PROGRAMS)/$${unit#*/}.service || exit; done

# This is the list of all files that there are: packages take theirs from it.
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' userspace/Cargo.toml)
to := $(DESTDIR)$(PREFIX)
lib := $(DESTDIR)$(LIBDIR)
programs_install: programs
	install -D -t $(to)/bin $(built)/superp $(built)/superp-agent $(if $(PROTOC),$(built)/superp-cm)
	install -D -t $(to)/libexec/superp userspace/slurm/superp-prolog userspace/slurm/superp-epilog
	install -D -m 644 -t $(to)/lib/systemd/system $(PROGRAMS)/superp-agent.service $(if $(PROTOC),$(PROGRAMS)/superp-cm.service)
	install -D -m 644 -t $(lib) $(built)/libsuperp.so.1
	ln -sf libsuperp.so.1 $(lib)/libsuperp.so
	$(if $(VERBS),install -D -m 644 -t $(to)/lib/superp $(built)/libsuperp_preload.so)
	install -D -m 644 -t $(lib)/pkgconfig $(PROGRAMS)/libsuperp.pc
	install -D -m 644 -t $(to)/include/superp userspace/libsuperp/include/superp/verbs.h
	install -D -m 644 -t $(to)/include/linux uapi/linux/superp.h uapi/linux/superp_netlink.h
	install -D -m 644 -t $(to)/share/man/man1 $(PROGRAMS)/share/man/man1/*.1
	install -D -m 644 -t $(to)/share/man/man3 Documentation/man/*.3
	install -D -m 644 -t $(to)/share/man/man7 Documentation/man/*.7
	for program in superp superp-agent $(if $(PROTOC),superp-cm); do \
		install -D -m 644 $(PROGRAMS)/share/completions/$$program.bash $(to)/share/bash-completion/completions/$$program && \
		install -D -m 644 -t $(to)/share/zsh/site-functions $(PROGRAMS)/share/completions/_$$program && \
		install -D -m 644 -t $(to)/share/fish/vendor_completions.d $(PROGRAMS)/share/completions/$$program.fish || exit; done
	install -D -m 644 -t $(to)/share/superp/monitoring userspace/monitoring/*
	install -D -m 644 -t $(to)/share/doc/superp README.md CONTRIBUTING.md
	install -D -m 644 -t $(to)/share/doc/superp/Documentation $(wildcard Documentation/*.md Documentation/*.png Documentation/*.svg Documentation/*.json)
	install -D -m 644 -t $(to)/share/doc/superp/Documentation/netlink/specs Documentation/netlink/specs/superp.yaml
	install -D -m 644 -t $(to)/share/doc/superp/Documentation/networking Documentation/networking/superp.rst
	install -D -m 644 -t $(to)/share/doc/libsuperp-dev/examples userspace/libsuperp/examples/*.c

# The source of the module, as dkms wants it.
module_source_install:
	mkdir -p $(DESTDIR)/usr/src/superp-$(VERSION)
	cp -r --preserve=mode Kbuild Makefile rust uapi $(wildcard scripts) $(DESTDIR)/usr/src/superp-$(VERSION)

# Packages for Debian 13, in $(DEBS). Cargo's registry is that of the user.
DEBS ?= build/deb
deb:
	@command -v dpkg-buildpackage >/dev/null || { echo 'error: dpkg-buildpackage is not installed: apt install dpkg-dev' >&2; exit 1; }
	mkdir -p $(DEBS)
	CARGO_HOME="$${CARGO_HOME:-$$HOME/.cargo}" DEBS=$(DEBS) PROGRAMS=$(PROGRAMS) dpkg-buildpackage --build=binary --no-sign $(DEB_OPTIONS) \
		--buildinfo-option=-u$(DEBS) --changes-option=-u$(DEBS) \
		--buildinfo-file=$(DEBS)/superp.buildinfo --changes-file=$(DEBS)/superp.changes

# Only what is shown is built.
demo: script := demo
demo: shown := --package superp --no-default-features
demo-fabric: script := fabric
demo-fabric: shown := --package superp --package superp-agent --package superp-cm
demo demo-fabric:
	@$(VM)/cargo build --locked $(shown)
	@$(VM)/run $(VMHOME) -- selftests/demo/$(script).sh

check:
	@$(VM)/check

check-long:
	@selftests/sim/run 2000000
	@SUPERP_SEEDS=100000 $(VM)/cargo test --locked -p superp-proto --test pair every_schedule
	@$(VM)/cargo test --locked --target s390x-unknown-linux-gnu -p superp-proto --test pair
	@PROPTEST_CASES=100000 $(VM)/cargo test --locked -p superp-proto --lib model_tests
	@selftests/fuzz/run 1200
	@selftests/rig/newcomer.sh trixie forky sid
	@selftests/rig/two.sh
	@selftests/rig/demo.sh
	@selftests/packages/release
	@selftests/rig/secureboot.sh
	@selftests/rig/tree.sh --build
	@for home in qemu debug; do SUPERP_THOROUGH=1 $(VM)/kselftest --timeout 21600 $$home || exit; done
	@$(VM)/programs-arm64 && $(VM)/run --timeout 3600 qemu-arm64-16k -- selftests/lib/run-tests --short
	@$(VM)/luck

bench:
	@selftests/bench/run

bench-core:
	@selftests/cost/run

mutants:
	@selftests/mutants/run

vm:
	@$(VM)/shell $(VMHOME)

lint:
	@selftests/lint/run

conformance:
	@selftests/conformance/check

update-kernel:
	@$(VM)/update-kernel

clean:
	rm -rf build userspace/target

distclean: clean
	@$(VM)/clean-cache

help:
	@echo 'For a kernel of your own (KDIR=, default: the running one):'
	@echo '  make [modules]        build superp.ko in $(OUT)'
	@echo '  make modules_install  install it'
	@echo '  make kernel-tree DIR= lay it into the source tree of a kernel, as net/superp'
	@echo '  make programs         the superp command and libsuperp, manual pages and completions, in $(PROGRAMS)'
	@echo '  make programs_install install them below PREFIX=$(PREFIX); DESTDIR= goes before it'
	@echo '  make install          install the module and the programs'
	@echo '  make deb              packages for Debian 13, in $(DEBS); DEB_BUILD_OPTIONS=noopt builds them quickly'
	@echo 'In virtual machines with the newest kernel of Debian 13 backports (as root, on Debian):'
	@echo '  make demo             two nodes move data over every encapsulation'
	@echo '  make demo-fabric      four nodes become a fabric, and what breaks is healed'
	@echo '  make check            all tests, in every home: QEMU (also on arm64), User Mode Linux, and that with checkers'
	@echo '  make check-long       random schedules in large numbers, an hour of fuzzing, machines of a newcomer, the demos, release packages, Secure Boot, the module in a kernel tree, all repetitions of the tests in every home, each test 50 times beside busy processors'
	@echo '  make bench            SUPERp beside TCP, RDS, rxe and bare frames: tables, build/bench.json, plots'
	@echo '  make bench-core       instructions for each packet in the protocol core, bytes of a connection'
	@echo '  make mutants          changes of the protocol core that no test notices; hours'
	@echo '  make vm [VMHOME=uml]  a shell in a virtual machine, module loaded, two nodes up'
	@echo '  make modules-stock    superp.ko for the distribution kernel; also modules-uml, modules-debug'
	@echo '  make lint             formatting, clippy, shellcheck, the house rules'
	@echo '  make conformance      what of the specification has code and tests, and what is open'
	@echo '  make update-kernel    use the newest kernel there is now'
	@echo '  make clean            remove build/; distclean: also the cache'
