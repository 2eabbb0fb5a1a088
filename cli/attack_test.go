package cli

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ringcli/cli/exit"
	"ringcli/ring/bootstrap"
	"ringcli/ring/bootstrap/oob"
	"ringcli/verbs/route"
	"ringcli/verbs/soft/wire/wiretest/spoof"
	"ringcli/verbs/verbstest"
)

// attack says something to a TCP port, again and again, and holds so many of the
// connections.
type attack struct {
	name string
	say  []byte
	hold int
	drip bool // a byte at a time
}

func tcpAttacks(t *testing.T) []attack {
	frame := func(kind oob.Type, version int, payload any) []byte {
		b, err := oob.Encode(kind, 0, 0, 1, 0, payload)
		if err != nil {
			t.Fatal(err)
		}
		if version != oob.Version { // of one digit both
			b = bytes.Replace(b, fmt.Appendf(nil, `"version":%d`, oob.Version), fmt.Appendf(nil, `"version":%d`, version), 1)
		}
		return b
	}
	huge := binary.BigEndian.AppendUint32([]byte("RNGC"), 1<<31-1)
	knock := frame(oob.TypeKnock, oob.Version, map[string]any{"for": "hello", "nonce": make([]byte, 32)})
	hello := frame(bootstrap.TypeHello, oob.Version, map[string]any{"instance": "it", "host": "\x1b[2Jevil", "size": 3, "digest": "x", "list": []string{"a:1", "b:1", "c:1"}})
	return []attack{
		{name: "garbage", say: bytes.Repeat([]byte("garbage\x00\xff\x1b[31m"), 4000)},
		{name: "slow loris", say: knock, hold: 300, drip: true},
		{name: "ten thousand connections", hold: 10_000},
		{name: "frames of 2 GiB", say: append(huge, make([]byte, 1<<20)...), hold: 100},
		{name: "crafted hellos", say: hello},
		{name: "another version", say: frame(bootstrap.TypeHello, 1, map[string]any{"instance": "it"})},
		{name: "wrong proofs", say: append(knock, frame(oob.TypeProof, oob.Version, map[string]any{"mac": make([]byte, 32)})...)},
		{name: "probes", say: frame(bootstrap.TypeProbe, oob.Version, nil)},
		{name: "forged frames", say: append(frame(bootstrap.TypeVerdict, oob.Version, map[string]any{"kind": "lost", "rank": 2, "text": "forged"}), frame(bootstrap.TypeGoodbye, oob.Version, nil)...)},
	}
}

// run attacks an address until ctx ends.
func (a *attack) run(ctx context.Context, to string) {
	var held []net.Conn
	defer func() {
		for _, c := range held {
			_ = c.Close()
		}
	}()
	for ctx.Err() == nil {
		conn, err := net.DialTimeout("tcp", to, time.Second)
		if err != nil {
			time.Sleep(time.Millisecond) // it does not listen yet, or any more
			continue
		}
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		say := a.say
		if a.drip {
			say = say[:len(held)%len(say)]
		}
		_, _ = conn.Write(say)
		if a.hold == 0 {
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
			continue
		}
		if held = append(held, conn); len(held) > a.hold {
			_ = held[0].Close()
			held = held[1:]
		}
		if a.drip {
			for _, c := range held {
				_, _ = c.Write(a.say[:1])
			}
		}
	}
}

// mostMemory is what a rank may have at most under attack, in KiB. Without one it has 24 MiB
// (ten runs), under each attack up to 38; the race detector takes twice that on top.
func mostMemory() int {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return 160 << 10
	}
	return 64 << 10
}

// besieged brings up a ring while its ports are attacked, has it compute all the while, and
// checks that it does so rightly, in little memory, and with few words.
func besieged(t *testing.T, secret string, span time.Duration, attacks []attack, flood bool) {
	list := freshList(t, 3)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for _, a := range attacks {
		for _, to := range list[:2] {
			running.Go(func() { a.run(ctx, to) })
		}
	}
	if flood {
		var aims []spoof.Aim
		for i := range list {
			here, next := netip.MustParseAddrPort(list[i]).Addr(), netip.MustParseAddrPort(list[(i+1)%len(list)]).Addr()
			aims = append(aims, spoof.Aim{From: next, To: netip.AddrPortFrom(here, route.RoCEPort)})
		}
		running.Go(func() {
			sent, err := spoof.Flood(ctx, aims)
			if err != nil {
				t.Error(err)
			}
			t.Logf("%d forged packets in %s", sent.Packets, sent.Took)
		})
	}
	ranks := make([]*process, len(list))
	begun := time.Now()
	for rank := range ranks {
		args := []string{"connect", "--index", fmt.Sprint(rank), "--list", strings.Join(list, ","), "--device", "soft", "--output", "json"}
		if rank == 0 {
			args = append(args, "-c", "all-reduce --size 64K --check --duration "+span.String())
		} else {
			args = append(args, "--follow")
		}
		ranks[rank] = program(t, args...)
		if secret != "" {
			ranks[rank].Env = append(ranks[rank].Env, "RINGCLI_TOKEN="+secret)
		}
		ranks[rank].start(t)
	}
	most := make([]int, len(ranks))
	running.Go(func() {
		for ctx.Err() == nil {
			for rank, p := range ranks {
				most[rank] = max(most[rank], peakOf(p.Process.Pid))
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	for rank, p := range ranks {
		if code := p.end(t, hung+span); code != exit.OK {
			t.Errorf("rank %d: exit code %d\n%.3000s%.3000s", rank, code, p.stdout.String(), p.stderr.String())
		}
	}
	cancel()
	running.Wait()
	minutes := int(time.Since(begun)/time.Minute) + 2 // the first at once, the last at the end
	for rank, p := range ranks {
		said := p.stderr.String()
		if lines := strings.Count(said, "stranger"); lines > 2*minutes {
			t.Errorf("rank %d has %d lines about strangers in %s\n%.3000s", rank, lines, time.Since(begun), said)
		}
		if strings.ContainsAny(p.stdout.String()+said, "\x1b\x07") {
			t.Errorf("rank %d prints what drives a terminal: %.3000q", rank, said)
		}
		if most[rank] == 0 || most[rank] > mostMemory() {
			t.Errorf("rank %d took %d KiB, expected at most %d", rank, most[rank], mostMemory())
		}
	}
	for _, o := range of(objects(t, ranks[0].stdout.String()), "all-reduce") {
		if o["wrong"] != 0.0 || o["ok"] != true {
			t.Errorf("%v", o)
		}
	}
	t.Logf("at most %d KiB\n%.3000s", most, ranks[0].stdout.String())
}

// peakOf is the most memory that a process has had, in KiB; 0 if it is gone.
func peakOf(pid int) (kib int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if _, rest, ok := strings.Cut(string(text), "VmHWM:"); ok {
		_, _ = fmt.Sscan(rest, &kib)
	}
	return kib
}

// Whatever comes to its ports, a ring comes up and computes: all attacks at once, and in a full
// run each by itself for longer. For `make spoof` forged packets alone come, for as long as
// RINGTEST_SPOOF says.
func TestRingUnderAttack(t *testing.T) {
	if text := os.Getenv("RINGTEST_SPOOF"); text != "" {
		span, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		besieged(t, testSecret, span, nil, true)
		return
	}
	all := tcpAttacks(t)
	if !verbstest.Full() {
		for i := range all {
			all[i].hold = min(all[i].hold, 500)
		}
		besieged(t, testSecret, 500*time.Millisecond, all, true)
		return
	}
	for _, secret := range []string{"", testSecret} {
		for _, a := range all {
			t.Run(a.name+" "+secret, func(t *testing.T) { besieged(t, secret, 1500*time.Millisecond, []attack{a}, false) })
		}
		t.Run("forged packets "+secret, func(t *testing.T) { besieged(t, secret, 5*time.Second, nil, true) })
		t.Run("all at once "+secret, func(t *testing.T) { besieged(t, secret, 5*time.Second, all, true) })
	}
}
