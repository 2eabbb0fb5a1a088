//go:build !nodl

package launch_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/ebitengine/purego"

	"ringcli/ring/bootstrap/launch"
	"ringcli/verbs/memory"
)

// What fails while PMIx is opened leaves nothing behind: the launcher hears the end, and the
// memory is given back. A call that has not come back keeps its memory, and Open does not wait
// for the end beside it.
func TestPMIxFails(t *testing.T) {
	var startFails, finalized atomic.Int32
	var hangs chan struct{}
	var late context.CancelCauseFunc
	start := purego.NewCallback(func(_, _, _ uintptr) uintptr { return uintptr(startFails.Load()) })
	get := purego.NewCallback(func(_, _, _, _, _ uintptr) uintptr {
		if hangs != nil {
			late(errLate)
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
		hangs            bool
		want             string
	}{
		{"it does not start", 1, 0, false, "PMIx_Init, the launcher's answer"},
		{"it does not say the size", 0, 1, false, "the launcher to say pmix.job.size"},
		{"it does not answer", 0, 0, true, errLate.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			startFails.Store(c.start)
			finalized.Store(0)
			if hangs = nil; c.hangs {
				hangs = make(chan struct{})
				defer close(hangs)
			}
			var ctx context.Context
			ctx, late = context.WithCancelCause(within(t, hung))
			defer late(nil)
			before := memory.Live.Load()
			_, err := launch.Open(ctx, launch.Options{Kind: launch.PMIx})
			says(t, err, false, c.want)
			if got := finalized.Load(); got != c.finalized {
				t.Errorf("PMIx_Finalize was called %d times: expected %d", got, c.finalized)
			}
			if kept := memory.Live.Load() > before; kept != c.hangs {
				t.Errorf("its memory is kept: %v: expected %v", kept, c.hangs)
			}
		})
	}
}
