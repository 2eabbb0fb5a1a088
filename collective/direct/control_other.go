//go:build !(amd64 || arm64) || race

package direct

import "sync/atomic"

func pause() {}

// publish is an atomic store, which the race detector sees.
func publish(word *uint64, value uint64) { atomic.StoreUint64(word, value) }
