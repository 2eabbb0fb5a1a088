// Package hand is the bring-up by hand: the steps from open to close, registered
// memory, work requests posted and polled one by one, and the looks at a ring: status,
// qp, ping and counters.
package hand
