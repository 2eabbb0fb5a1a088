# `make` builds ./ringcli: one file that can be copied to a node. It needs glibc, with
# which it loads libibverbs if that is there; `make static` builds one that needs nothing.

GO      ?= go
VERSION  := $(shell .ci/version)
# The date of what it is built from, for man pages; empty where neither git nor the packager says it.
DATE     := $(shell date -u -d "@$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null)}" +%F 2>/dev/null)
REVISION := $(shell git rev-parse HEAD 2>/dev/null)
# Neither where it is built nor what git knows besides gets into it: two checkouts of a commit make one file, byte for byte.
LDFLAGS := -s -w -X ringcli/cli/about.version=$(VERSION) -X ringcli/cli/about.revision=$(REVISION)

# The program's file.
OUT := ringcli

# Build tags, as in `make TAGS=notrace`, which leaves out printed traces.
TAGS :=

# ringcli, and what is built apart from it.
MODULES := . cli/readerstest collective/peersbench verbs/ibv/racktest

# Where `make install` puts things; DESTDIR is put before it, for packagers.
PREFIX  ?= /usr/local
bindir  := $(DESTDIR)$(PREFIX)/bin
datadir := $(DESTDIR)$(PREFIX)/share
bash    := $(datadir)/bash-completion/completions/ringcli
zsh     := $(datadir)/zsh/site-functions/_ringcli
fish    := $(datadir)/fish/vendor_completions.d/ringcli.fish

# Minutes that a package's tests may take: a hang must end, a slow machine may
# be slow. The full matrix of collectives alone takes several.
TEST_TIMEOUT := 20m

.PHONY: all build static release quick test test-long test-verbs test-gpu test-arm64 torture rig growth bench-verbs bench-peers bench-model race lint fuzz spoof cross golden man install uninstall clean

all: build

# Always run: the go command knows better than make what is out of date.
build:
	CGO_ENABLED=0 $(GO) build -tags '$(TAGS)' -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o $(OUT) ./cli/ringcli

# Without libibverbs and its devices, and so without the system's C library: for
# containers from scratch and for systems whose C library is not glibc.
static: override TAGS := nodl,$(TAGS)
static: build

# What is given out, in dist: programs, packages, images, what they are made of and their
# checksums, for amd64 and arm64.
release:
	.ci/release/run dist

# Tests with the flags $(1): ringcli, and what is built apart from it.
define tests
	$(GO) test $(1) -timeout $(TEST_TIMEOUT) ./...
	$(GO) -C cli/readerstest test $(1) -timeout $(TEST_TIMEOUT) ./...
	$(GO) -C collective/peersbench test $(1) -timeout $(TEST_TIMEOUT) ./...
	$(GO) -C verbs/ibv/racktest test $(1) -timeout $(TEST_TIMEOUT) ./rack/... ./interop
endef

# What a change is tried with first, in two minutes: format, vet, and the tests of packages that need
# no more than a few seconds each.
SLOW := cli collective collective/backend collective/sharedmem ring ring/bootstrap ring/bootstrap/launch \
	verbs/gpu verbs/shm verbs/soft verbs/transport
quick:
	@unformatted=$$(gofmt -l cli collective configs repl ring trace verbs) && test -z "$$unformatted" || { echo "run gofmt -w on $$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) test -short $$($(GO) list ./... | grep -vxF $(addprefix -e ringcli/,$(SLOW)))

# A sample of the long matrices and of the many rounds (testing.Short); test-long takes more,
# and with RINGTEST_MATRIX=full all, on many ranks, too.
test:
	$(call tests,-short)

test-long:
	$(call tests)

# CASES cases of a SEED, from number FROM on, PARALLEL at a time; those in torture.log or
# rig.log are not run again. As root, for network namespaces. In torture ranks are killed,
# stopped and cut off. In rig each case has one fault of a known kind, and its verdict is
# checked; the default is 20 of each kind, and 60 healthy rings under load.
CASES     =
SEED     := 1
FROM     := 0
PARALLEL  =
torture rig: RIG_FLAGS = $(if $(CASES),-cases $(CASES)) -seed $(SEED) -from $(FROM) $(if $(PARALLEL),-parallel $(PARALLEL)) -log $@.log
rig: PARALLEL = 2
torture: build
	$(GO) build -o $@.bin ./collective/torture
	./$@.bin $(RIG_FLAGS)

rig: build
	$(GO) build -o $@.bin ./cli/rig
	./$@.bin $(RIG_FLAGS)

# What grows with the ranks, up to 10,000 of them, simulated: tables. Some minutes.
growth:
	RINGTEST_MATRIX=full $(GO) test -count=1 -timeout 60m -v -run 'Growth|ModelMeets|^TestMesh$$' \
		./collective ./ring/bootstrap/growthtest ./ring/diagnose/links/meshtest

# The race detector needs cgo, and several times as long: of the packages that start goroutines.
race: export CGO_ENABLED := 1
race: TEST_TIMEOUT := 35m
race:
	$(GO) test -race -short -timeout $(TEST_TIMEOUT) $$(grep -rlE '\bgo func|\.Go\(|\bgo [a-z][A-Za-z.]*\(' \
		--include='*.go' cli collective configs repl ring trace verbs | xargs -n1 dirname | sort -u | \
		grep -v -e ^cli/readerstest -e ^collective/peersbench -e ^verbs/ibv/racktest | sed 's|^|./|')

# Real verbs: boots virtual machines with Linux's rdma_rxe, runs the tests in them
# and leaves nothing. As root on Debian; .ci/run setup installs what that takes.
test-verbs:
	$(GO) -C verbs/ibv/racktest test -count=1 -timeout 20m -v .

# What wants a real GPU: tests called ...OnGPU, which ask for RINGTEST_GPU=1 (gputest.Real) and
# skip, with the reason, where there is none. A package that has such tests is listed here.
test-gpu: GPU_TESTS := ./verbs/gpu ./collective/gpu/kernels ./cli
test-gpu:
	RINGTEST_GPU=1 $(GO) test -count=1 -timeout $(TEST_TIMEOUT) -v -run 'OnGPU$$' $(GPU_TESTS)

# Bandwidth and latency beside perftest's, in such machines: for people, not for
# CI, whose machines serve many.
bench-verbs:
	$(GO) -C verbs/ibv/racktest run ./rack/beside

# Collectives beside Open MPI's and MPICH's, which it installs from Debian if they are
# missing: for people with a quiet machine. FLAGS='--quick' is a look; --help says more.
bench-peers:
	$(GO) -C collective/peersbench run -exec 'env -C $(CURDIR)' . $(FLAGS)

# What the parts of a ring cost here, measured, and the collectives beside what package model
# makes of that: for people with a quiet machine. FLAGS=-quick is a look.
bench-model: build
	$(GO) run ./collective/model/beside $(FLAGS)

lint:
	.ci/run golangci-lint

# FUZZTIME=10m for each target; FUZZ='shm Frame' takes those whose package or name has
# one of these words.
fuzz:
	.ci/run fuzz

# A blind spoofer at full rate on the host of a ring, which takes no rights: TIME=10m.
spoof:
	RINGTEST_SPOOF=$(or $(TIME),1m) $(GO) test -count=1 -v -timeout 0 -run '^TestRingUnderAttack$$' ./cli

cross: export CGO_ENABLED := 0
cross: export GOARCH := arm64
cross:
	for module in $(MODULES); do $(GO) -C $$module build -o /dev/null ./... && $(GO) -C $$module vet ./... || exit; done

# A sample of the tests on arm64, by qemu's emulation; what that cannot show, package
# verbs/shm says.
test-arm64:
	.ci/arm64

# Writes the files that tests compare with: examples of what each command prints,
# the JSON Schema, man pages, README's topics. `git diff` shows what changed.
golden:
	UPDATE_GOLDEN=1 $(GO) test ./cli/... -run 'Golden'

man:
	UPDATE_GOLDEN=1 $(GO) test ./cli -run 'GoldenMan'

install: build
	install -D -m 755 $(OUT) $(bindir)/ringcli
	install -d $(datadir)/man/man1 $(datadir)/man/man7
	install -m 644 cli/man/*.1 $(datadir)/man/man1
	install -m 644 cli/man/*.7 $(datadir)/man/man7
	$(if $(DATE),sed -i '/^\.TH /s/""/"$(DATE)"/' $(foreach s,1 7,$(addprefix $(datadir)/man/man$s/,$(notdir $(wildcard cli/man/*.$s)))))
	install -d $(dir $(bash) $(zsh) $(fish))
	$(abspath $(OUT)) completion bash > $(bash)
	$(abspath $(OUT)) completion zsh > $(zsh)
	$(abspath $(OUT)) completion fish > $(fish)
	install -D -m 644 cli/schema/ringcli.schema.json $(datadir)/ringcli/ringcli.schema.json

uninstall:
	rm -f $(bindir)/ringcli $(bash) $(zsh) $(fish) $(datadir)/ringcli/ringcli.schema.json
	rm -f $(addprefix $(datadir)/man/man1/,$(notdir $(wildcard cli/man/*.1))) \
		$(addprefix $(datadir)/man/man7/,$(notdir $(wildcard cli/man/*.7)))

clean:
	rm -f ringcli torture.bin torture.log rig.bin rig.log
	rm -rf torture rig dist
