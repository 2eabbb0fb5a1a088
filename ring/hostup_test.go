package ring

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/verbs"
)

// What may be of a host whose network comes up is tried again, and a mistake is not.
func TestUntilUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err   error
		index *int // of the GID
		again bool
	}{
		"no address yet":           {usage.Codedf(codes.AddressForeign, "no interface here has that address"), nil, true},
		"an address not ready yet": {&net.OpError{Op: "listen", Err: syscall.EADDRNOTAVAIL}, nil, true},
		"no route":                 {fmt.Errorf("no route: %w", syscall.ENETUNREACH), nil, true},
		"a port that is down":      {verbs.OfKind(verbs.ErrPortDown, errors.New("port 1 of ibv:mlx5_0 is INIT: expected ACTIVE")), nil, true},
		"no GID":                   {verbs.OfKind(verbs.ErrNoGID, errors.New("no GID")), nil, true},
		"no such GID":              {verbs.OfKind(verbs.ErrNoGID, errors.New("no GID")), new(7), false},
		"no such device":           {fmt.Errorf("soft:eth9: %w", verbs.ErrNoDevice), nil, false},
		"bad usage":                {usage.Errorf("mtu is 1500"), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := testOptions()
			o.GIDIndex = c.index
			r, err := New([]string{"127.0.0.1"}, 0, o)
			if err != nil {
				t.Fatal(err)
			}
			tries := 0
			err = r.host.untilUp(t.Context(), func() error {
				if tries++; tries < 3 {
					return c.err
				}
				return nil
			})
			if c.again && (err != nil || tries != 3) || !c.again && (!errors.Is(err, c.err) || tries != 1) {
				t.Errorf("%v after %d tries: expected more than one: %t", err, tries, c.again)
			}
		})
	}
}

// At the deadline the error says what was waited for, and is of the kind that it was.
func TestUntilUpEnds(t *testing.T) {
	t.Parallel()
	r, err := New([]string{"127.0.0.1"}, 0, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*hostLook)
	defer cancel()
	begun := time.Now()
	err = r.host.untilUp(ctx, func() error { return usage.Codedf(codes.AddressForeign, "no interface here has that address") })
	if !usage.Is(err) || !strings.Contains(err.Error(), "no interface here has that address; this was waited for ") || time.Since(begun) < 3*hostLook {
		t.Errorf("%v after %s", err, time.Since(begun))
	}
}
