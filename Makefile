# `make` builds ./ringcli: one static file that can be copied to a node.

GO      ?= go
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X ringcli/cli.version=$(VERSION)

# Minutes that a package's tests may take: a hang must end, a slow machine may
# be slow. The full matrix of collectives alone has ten.
TEST_TIMEOUT := 20m

.PHONY: all build test race lint fuzz cross clean

all: build

# Always run: the go command knows better than make what is out of date.
build:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o ringcli ./cli/ringcli

test:
	$(GO) test -timeout $(TEST_TIMEOUT) ./...

# The race detector needs cgo; -short takes a sample of the long matrices.
race:
	CGO_ENABLED=1 $(GO) test -race -short -timeout $(TEST_TIMEOUT) ./...

lint:
	.ci/run golangci-lint

fuzz:
	.ci/run fuzz

cross:
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 $(GO) build ./...
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 $(GO) vet ./...

clean:
	rm -f ringcli
