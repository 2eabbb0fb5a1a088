package bootstrap

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/bootstrap/oob"
	"ringcli/ring/bootstrap/seal"
)

func token(t testing.TB, secret string) *seal.Token {
	t.Helper()
	k, err := seal.New([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

const (
	oneSecret     = "a secret of some length"
	anotherSecret = "another secret, as long"
)

// withTokens brings up ranks of a ring with these tokens, "" for none.
func withTokens(t *testing.T, secrets ...string) []*Control {
	t.Helper()
	nodes := freshNodes(t, len(secrets))
	world := make([]*Control, len(nodes))
	for rank, secret := range secrets {
		cfg := configFor(t, nodes, rank)
		if secret != "" {
			cfg.Token = token(t, secret)
		}
		world[rank] = openRank(t, cfg)
	}
	return world
}

func TestRingWithAToken(t *testing.T) {
	t.Parallel()
	world := withTokens(t, oneSecret, oneSecret, oneSecret)
	noErrors(t, each(world, func(c *Control) error { return exchange(within(t), c) }))
	// More than a record holds.
	data := bytes.Repeat([]byte("0123456789"), 20_000)
	noErrors(t, each(world, func(c *Control) error {
		all, err := c.GatherAll(within(t), data)
		for _, got := range all {
			if err == nil && !bytes.Equal(got, data) {
				err = errors.New("other bytes came")
			}
		}
		return err
	}))
	for _, p := range world[0].prober.probeAll(within(t)) {
		if !p.Up || !strings.HasPrefix(p.State, "up (") {
			t.Errorf("rank %d is %s", p.Rank, p.State)
		}
	}
}

// One rank has a token and one has none, or they have different ones: both say so by name.
func TestTokensDiffer(t *testing.T) {
	for _, c := range []struct {
		secrets []string
		words   [2]string
	}{
		{[]string{oneSecret, ""}, [2]string{"has no token and rank 0", "has a token and rank 1"}},
		{[]string{"", oneSecret}, [2]string{"has a token and rank 0", "has no token and rank 1"}},
		{[]string{oneSecret, anotherSecret}, [2]string{"has another token than rank 0", "has another token than rank 1"}},
	} {
		t.Run(c.words[0], func(t *testing.T) {
			t.Parallel()
			world := withTokens(t, c.secrets...)
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // who has a token believes nobody without
			defer cancel()
			for rank, err := range each(world, func(c *Control) error { return exchange(ctx, c) }) {
				text, other := textOf(err), world[1-rank]
				if !errors.Is(err, usage.Err) || !strings.Contains(text, "rank") || !strings.Contains(text, other.own.cfg.List[1-rank].String()) || !strings.Contains(text, "token-file") {
					t.Errorf("rank %d: %s", rank, text)
				}
				// The first to find out tells the other, whose own words may come too late.
				if !strings.Contains(text, c.words[0]) && !strings.Contains(text, c.words[1]) {
					t.Errorf("rank %d: %s: expected %q", rank, text, c.words)
				}
				if code, _ := codes.Of(err); code != codes.Token {
					t.Errorf("rank %d: %v has the code %q", rank, err, code)
				}
				if strings.Contains(text, oneSecret) || strings.Contains(text, anotherSecret) {
					t.Errorf("rank %d tells: %s", rank, text)
				}
			}
		})
	}
}

// Who has not shown the token ends no bring-up by rejecting it: the neighbour may come yet.
func TestAnybodyRejects(t *testing.T) {
	t.Parallel()
	for _, r := range []rejection{{Token: oob.TokenWrong}, {Token: oob.TokenNone}, {Verdict: Verdict{Kind: KindMismatch, Code: codes.Version, Text: "of another version"}}} {
		nodes := freshNodes(t, 2)
		cfg := [2]Config{configFor(t, nodes, 0), configFor(t, nodes, 1)}
		cfg[0].Token, cfg[1].Token = token(t, oneSecret), token(t, oneSecret)
		ln, err := net.Listen("tcp", nodes[1].String())
		if err != nil {
			t.Fatal(err)
		}
		rejected := make(chan error, 1)
		go func() {
			conn, err := ln.Accept()
			if err == nil {
				_, err = oob.ReadFrame(conn)
				b, _ := oob.Encode(TypeReject, 0, 1, 0, 0, r)
				_, _ = conn.Write(b)
				_ = conn.Close()
			}
			_ = ln.Close()
			rejected <- err
		}()
		zero := openRank(t, cfg[0])
		ended := make(chan error, 1)
		go func() { ended <- exchange(within(t), zero) }()
		noErrors(t, []error{<-rejected})
		until(t, "the rejection is noted", func() bool {
			zero.tally.mu.Lock()
			defer zero.tally.mu.Unlock()
			return zero.tally.untrusted && !zero.Failed()
		})
		noErrors(t, []error{exchange(within(t), openRank(t, cfg[1])), <-ended})
	}
}

// listenAs answers probes at a node's address as an instance of ringcli would.
func listenAs(t *testing.T, at hosts.Node, instance string, version int) {
	t.Helper()
	ln, err := net.Listen("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			if f, err := oob.ReadFrame(conn); err == nil && f.Type == TypeProbe {
				asked, _ := oob.Decode[probe](f)
				payload, _ := json.Marshal(status{Itself: asked.Instance == instance})
				b, _ := oob.AppendFrame(nil, &oob.Frame{Version: version, Type: TypeState, Sender: f.Receiver, Receiver: f.Sender, Edge: f.Edge, Payload: payload})
				_, _ = conn.Write(b)
			}
			_ = conn.Close()
		}
	}()
}

// A hello from the left neighbour's host that is not the left neighbour's ends no
// bring-up, with a token or without.
func TestCraftedHello(t *testing.T) {
	for _, secret := range []string{"", oneSecret} {
		t.Run("token "+secret, func(t *testing.T) {
			t.Parallel()
			world := withTokens(t, secret, secret)
			nodes, digest := world[0].own.cfg.List, world[0].own.digest
			crafted := []*oob.Frame{
				{Version: 99, Type: TypeHello, Sender: 0, Receiver: 1, Payload: []byte(`{"instance":"it"}`)},
				{Version: oob.Version, Type: TypeHello, Sender: 0, Receiver: 1, Payload: []byte(`{"instance":"it","size":5,"digest":"x"}`)},
				{Version: oob.Version, Type: TypeHello, Sender: 0, Receiver: 1, Payload: []byte(`{"instance":"it","size":2,"digest":"x","list":["a:1","b:1"]}`)},
			}
			if secret != "" { // all that it takes without
				crafted = append(crafted, &oob.Frame{Version: oob.Version, Type: TypeHello, Sender: 1, Receiver: 1, Edge: 1, Payload: []byte(`{"instance":"it","size":2,"digest":"` + digest + `"}`)},
					&oob.Frame{Version: oob.Version, Type: oob.TypeKnock, Sender: 0, Receiver: 1, Payload: []byte(`{"for":"hello","nonce":"AA=="}`)})
			}
			for i, f := range crafted {
				conn, err := net.Dial("tcp", nodes[1].String())
				if err != nil {
					t.Fatal(err)
				}
				b, _ := oob.AppendFrame(nil, f)
				_, _ = conn.Write(b)
				if answer, err := oob.ReadFrame(conn); err == nil && answer.Type != TypeReject {
					t.Errorf("hello %d: %s %s: expected to be rejected", i, answer.Type, answer.Payload)
				}
				_ = conn.Close()
			}
			noErrors(t, each(world, func(c *Control) error { return exchange(within(t), c) }))
		})
	}
}

// What a probe says to who does not have the list, or not the token, is no use to it.
func TestProbeTellsStrangersNothing(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"", oneSecret} {
		world := withTokens(t, secret, secret)
		c := world[1]
		c.SetActivity("at work on the budget")
		answer := callAs(t, c.own.cfg.List[1], &oob.Frame{Version: oob.Version, Type: TypeProbe, Sender: 0, Receiver: 1, Payload: []byte(`{"digest":"x"}`)})
		for _, telling := range []string{c.own.digest, c.own.self.Instance, "budget", c.own.cfg.List[0].String()} {
			if strings.Contains(string(answer.Payload), telling) {
				t.Errorf("token %q: a stranger is told %q: %s", secret, telling, answer.Payload)
			}
		}
		if want := map[bool]oob.Type{true: TypeState, false: TypeReject}[secret == ""]; answer.Type != want {
			t.Errorf("token %q: answered with %s", secret, answer.Type)
		}
		// Who has both is told all but who this is.
		if p := world[0].ProbeRank(within(t), 1); !p.Up || !strings.Contains(p.State, "budget") {
			t.Errorf("token %q: a rank is told %+v", secret, p)
		}
	}
}

// What was recorded of a handshake and what followed it is of no use later.
func TestReplayedHandshake(t *testing.T) {
	t.Parallel()
	nodes := freshNodes(t, 2)
	var recorded tape
	world := make([]*Control, 2)
	for rank := range world {
		cfg := configFor(t, nodes, rank)
		cfg.Token = token(t, oneSecret)
		if rank == 0 {
			cfg.Dial = recorded.dial
		}
		world[rank] = openRank(t, cfg)
	}
	noErrors(t, each(world, func(c *Control) error { return exchange(within(t), c) }))
	noErrors(t, each(world, func(c *Control) error { return c.Close() }))
	cfg := configFor(t, nodes, 1)
	cfg.Token = token(t, oneSecret)
	one := openRank(t, cfg)
	conn, err := net.Dial("tcp", nodes[1].String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	recorded.mu.Lock()
	_, _ = conn.Write(recorded.sent.Bytes())
	recorded.mu.Unlock()
	_ = conn.SetDeadline(time.Now().Add(patience))
	var last *oob.Frame
	for {
		f, err := oob.ReadFrame(conn)
		if err != nil {
			break
		}
		last = f
	}
	if last != nil && last.Type != TypeReject && last.Type != oob.TypeChallenge {
		t.Errorf("the last answer to a replay is %s %s", last.Type, last.Payload)
	}
	cfg = configFor(t, nodes, 0)
	cfg.Token = token(t, oneSecret)
	zero := openRank(t, cfg)
	noErrors(t, each([]*Control{zero, one}, func(c *Control) error { return exchange(within(t), c) }))
}
