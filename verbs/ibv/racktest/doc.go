// Package racktest tests real verbs: Linux's rdma_rxe in the virtual machines of
// package rack, and what speaks with it. `make test-verbs` runs it, as root.
// It is a module of its own, with what boots the machines.
package racktest
