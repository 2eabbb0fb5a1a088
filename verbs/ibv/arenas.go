//go:build !nodl

package ibv

import (
	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"
)

// Each thread that allocates from the C library, as all do when they begin, gets an arena of
// 64 MiB of address space. Where that is limited, one does for all.
func init() {
	const arenaMax = ^uintptr(8) + 1 // M_ARENA_MAX of malloc.h, -8
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &limit) != nil || limit.Cur == unix.RLIM_INFINITY {
		return
	}
	if mallopt, err := purego.Dlsym(purego.RTLD_DEFAULT, "mallopt"); err == nil {
		call(mallopt, arenaMax, 1)
	}
}
