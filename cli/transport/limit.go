package transport

import (
	"context"

	"ringcli/configs"
	"ringcli/configs/usage"
)

const (
	// mostMemory is the most that a client may have a server allocate, in bytes: more than the
	// longest message of a bench.
	mostMemory = 4 << 30
	// strangersMemory is the most without a token, for all clients together: one is served at
	// a time, and its memory is freed before the next one is. It is larger than the caches of a
	// machine, so that a bench of that size measures its memory, and smaller than what a
	// machine misses.
	strangersMemory = 64 << 20
	// availableShare is which part of the available memory a client with the token gets: half.
	// The other half is for what this host does besides, since the kernel only estimates what
	// is available, and who allocates all of it wakes the OOM killer.
	availableShare = 2
)

// checkMemory refuses a request for more memory than the server gives. secret tells whether the
// client has the server's token; available is what the machine can give, where that is known.
func checkMemory(bytes uint64, secret bool, available uint64, known bool) error {
	share := available / availableShare >> 20 << 20 // whole MiB, for people
	switch {
	case !secret && bytes > strangersMemory:
		return usage.Errorf("%d bytes of memory are asked for: without a token a server gives %s: give both ends the same --token-file, or measure with a smaller --end",
			bytes, configs.FormatSize(strangersMemory))
	case bytes > mostMemory:
		return usage.Errorf("%d bytes of memory are asked for: a server gives %s: measure with a smaller --end",
			bytes, configs.FormatSize(mostMemory))
	case known && bytes > share:
		return usage.Errorf("%d bytes of memory are asked for: the server gives %s, half of what its machine and its control groups have available: measure with a smaller --end, or free memory there",
			bytes, configs.FormatSize(share))
	}
	return nil
}

// touchStep is how many bytes are touched between two looks at the context: it takes
// some milliseconds at most.
const touchStep = 1 << 20

// touch makes the kernel allocate each page, which would be measured otherwise, until the
// context ends.
func touch(ctx context.Context, b []byte) error {
	for i := 0; i < len(b); i += pageSize {
		if i%touchStep == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		b[i] = 0
	}
	return nil
}
