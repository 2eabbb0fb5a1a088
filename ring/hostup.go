package ring

import (
	"context"
	"fmt"
	"time"

	"ringcli/configs/codes"
	"ringcli/ring/diagnose"
	"ringcli/trace"
)

const (
	// hostLook is the pause between two looks at a host whose network is not up.
	hostLook = 50 * time.Millisecond
	// hostUpByHand is how long a step that an operator takes waits for it: the kernel looks at
	// links once a second.
	hostUpByHand = 1500 * time.Millisecond
)

// untilUp repeats what needs this host's network while that is not up: the addresses, links and
// routes of a host that starts come one after the other. It says at once what it waits for, which
// may be a mistake. At the context's deadline it returns the last error.
func (h *Host) untilUp(ctx context.Context, try func() error) error {
	limit := h.control.limit()
	if h.opts.ByHand {
		limit = min(limit, hostUpByHand)
	}
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	said := ""
	for begun := time.Now(); ; {
		err := try()
		if err == nil || !h.comesUp(err) {
			return err
		}
		if text := err.Error(); text != said {
			said = text
			trace.Warn(trace.Ring, fmt.Sprintf("waiting for this host's network, at most %s: %s", limit, text))
		}
		select {
		case <-within.Done():
			return fmt.Errorf("%w; this was waited for %s", err, time.Since(begun).Round(hostLook))
		case <-time.After(hostLook):
		}
	}
}

// comesUp tells whether an error may be of a host whose network is not up yet.
func (h *Host) comesUp(err error) bool {
	switch diagnose.FailureCode(err) {
	case codes.AddressForeign, codes.Unreachable, codes.PortDown:
		return true
	case codes.NoGID:
		return h.opts.GIDIndex == nil // else the index may be a mistake
	}
	return false
}
