// Package racktest tests real verbs: Linux's rdma_rxe in the virtual machines of
// package rack, and what speaks with it. `make test-verbs` runs it; the tests
// have the build tag rack.
package racktest
