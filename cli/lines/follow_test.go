package lines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/session"
	"ringcli/ring"
)

// Where a port can be reached from other machines, anybody could give commands.
func TestFollowersAreOnLoopbackAlone(t *testing.T) {
	t.Parallel()
	for address, allowed := range map[string]bool{"127.0.0.1": true, "127.9.9.9": true, "::1": true, "10.0.0.1": false, "fe80::1%eth0": false, "2001:db8::1": false} {
		err := mayFollowAt(address, netip.MustParseAddr(address))
		if (err == nil) != allowed {
			t.Errorf("--follow at %s: %v", address, err)
		}
		if err != nil && (exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), "loopback") || !strings.Contains(err.Error(), "--token-file")) {
			t.Errorf("--follow at %s: %v", address, err)
		}
	}
}

// A ring that fails when a follower's command is through is no end that the leader said.
func TestFollowersOfARingThatFailsBetweenCommands(t *testing.T) {
	t.Parallel()
	subnet := fmt.Sprintf("127.%d.%d.", 1+rand.IntN(250), 1+rand.IntN(250))
	rings, errs := make([]*ring.Ring, 2), make([]error, 2)
	var both sync.WaitGroup
	for rank := range rings {
		both.Go(func() {
			rings[rank], errs[rank] = ring.Connect(t.Context(), []string{subnet + "1", subnet + "2"}, rank, ring.Options{Device: "soft:lo"})
		})
	}
	both.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(rings[0].Close(), rings[1].Close()); err != nil {
			t.Error(err)
		}
	}()
	lost := errors.New("rank 0 was lost")
	table := command.NewTable()
	table.Add(command.Row{Name: "work", Group: command.GroupShell, Where: command.Line, Run: func(_ context.Context, s *session.Session, _ command.Call) error {
		s.Ring.Fail(lost)
		return nil
	}})
	data, err := json.Marshal(session.Order{Do: session.OrderRun, Words: []string{"work"}})
	if err != nil {
		t.Fatal(err)
	}
	both.Go(func() { _, _ = rings[0].Broadcast(t.Context(), data) })
	s := session.New(strings.NewReader(""), io.Discard, io.Discard, nil, nil)
	s.Ring, s.Member = rings[1], &session.Member{Ring: rings[1]}
	if _, again, err := followRing(t.Context(), s, table); again || !errors.Is(err, lost) {
		t.Errorf("again %v, %v: expected %v", again, err, lost)
	}
	both.Wait()
}
