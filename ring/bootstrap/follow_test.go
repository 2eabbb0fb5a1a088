package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// leading is a ring of 4 whose ranks but 0 wait for a broadcast without a
// deadline.
func leading(t *testing.T, change func(*Config)) (leader *Control, followers func() []error) {
	world := ring(t, 4, func(cfg *Config) {
		cfg.Death, cfg.Silence = 500*time.Millisecond, time.Second
		if cfg.Rank == 0 && change != nil {
			change(cfg)
		}
	})
	done := make(chan []error, 1)
	go func() {
		done <- each(world[1:], func(c *Control) error {
			data, err := c.Broadcast(context.Background(), nil)
			if err == nil && string(data) != "bench" {
				err = fmt.Errorf("the broadcast is %q", data)
			}
			return err
		})
	}()
	for _, c := range world[1:] {
		until(t, "the followers", func() bool {
			c.gathers.mu.Lock()
			defer c.gathers.mu.Unlock()
			return c.gathers.lastOp == 1
		})
	}
	return world[0], func() []error {
		select {
		case errs := <-done:
			return errs
		case <-time.After(patience):
			t.Fatal("the followers still wait")
			return nil
		}
	}
}

// A leader that says nothing for long is alive while its heartbeats are.
func TestFollowersWaitLong(t *testing.T) {
	t.Parallel()
	leader, followers := leading(t, nil)
	time.Sleep(leader.own.cfg.Silence + maxBeat)
	if _, err := leader.Broadcast(t.Context(), []byte("bench")); err != nil {
		t.Error(err)
	}
	noErrors(t, followers())
}

func TestFollowersOutliveTheirLeader(t *testing.T) {
	t.Parallel()
	var dead cutter
	var stopped atomic.Bool
	for _, end := range []struct {
		name   string
		change func(*Config)
		do     func(*Control) error
		kind   Kind
	}{
		{"goodbye", nil, func(c *Control) error { return c.Close() }, KindLeft},
		{"death", dead.install, func(*Control) error { dead.cut(); return nil }, KindLost},
		{"silence", func(cfg *Config) { muteAll(cfg, &stopped) }, func(*Control) error { stopped.Store(true); return nil }, KindStopped}, // its goodbyes, too
	} {
		t.Run(end.name, func(t *testing.T) {
			t.Parallel()
			leader, followers := leading(t, end.change)
			if err := end.do(leader); err != nil {
				t.Error(err)
			}
			for i, err := range followers() {
				var v *Verdict
				if !errors.As(err, &v) || v.Kind != end.kind || v.Rank != 0 {
					t.Errorf("rank %d: %v: expected rank 0 to be %s", i+1, err, end.kind)
				}
			}
		})
	}
}

// muteAll drops what a rank writes while it is quiet.
func muteAll(cfg *Config, quiet *atomic.Bool) {
	var d net.Dialer
	var lc net.ListenConfig
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return mute{c, quiet}, nil
	}
	cfg.Listen = func(ctx context.Context, network, address string) (net.Listener, error) {
		ln, err := lc.Listen(ctx, network, address)
		return muteListener{ln, quiet}, err
	}
}
