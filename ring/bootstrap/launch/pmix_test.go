//go:build !nodl

package launch_test

import (
	"bufio"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebitengine/purego"

	"ringcli/ring/bootstrap/launch"
)

// What fails while PMIx is opened leaves nothing behind: the launcher hears the end, and the
// memory is given back, but for that of a call that has not come back.
func TestPMIxFails(t *testing.T) {
	var at uintptr // of the memory
	var startFails, finalized atomic.Int32
	var hangs chan struct{}
	start := purego.NewCallback(func(proc, _, _ uintptr) uintptr {
		at = proc
		return uintptr(startFails.Load())
	})
	get := purego.NewCallback(func(_, _, _, _, _ uintptr) uintptr {
		if hangs != nil {
			<-hangs
		}
		return 1
	})
	finalize := purego.NewCallback(func(_, _ uintptr) uintptr {
		finalized.Add(1)
		return 0
	})
	describe := purego.NewCallback(func(uintptr) uintptr { return 0 })
	defer launch.UsePMIx(start, get, finalize, describe)()
	for _, c := range []struct {
		name             string
		start, finalized int32
		hangs, mapped    bool
		want             string
	}{
		{"it does not start", 1, 0, false, false, "PMIx_Init, the launcher's answer"},
		{"it does not say the size", 0, 1, false, false, "the launcher to say pmix.job.size"},
		{"it does not answer", 0, 1, true, true, errLate.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			startFails.Store(c.start)
			finalized.Store(0)
			limit := hung
			if hangs = nil; c.hangs {
				hangs, limit = make(chan struct{}), 300*time.Millisecond
				defer close(hangs)
			}
			_, err := launch.Open(within(t, limit), launch.Options{Kind: launch.PMIx})
			says(t, err, false, c.want)
			if got := finalized.Load(); got != c.finalized {
				t.Errorf("PMIx_Finalize was called %d times: expected %d", got, c.finalized)
			}
			if got := mapped(t, at); got != c.mapped {
				t.Errorf("its memory is there: %v: expected %v", got, c.mapped)
			}
		})
	}
}

// mapped tells whether something is at an address.
func mapped(t *testing.T, at uintptr) bool {
	t.Helper()
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = maps.Close() }()
	for in := bufio.NewScanner(maps); in.Scan(); {
		var from, to uintptr
		if _, err := fmt.Sscanf(in.Text(), "%x-%x", &from, &to); err == nil && from <= at && at < to {
			return true
		}
	}
	return false
}
