package collective

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/ring/bootstrap"
	"ringcli/ring/bootstrap/oob"
	"ringcli/verbs/verbstest"
)

// TestReconnectUnderReplay rebuilds a ring again and again while what the last epoch sent is
// played back at full rate, byte for byte and from the peers' own addresses and ports: its
// packets, WRITEs that were on their way when it failed among them, to the UDP ports, and
// its control frames to the TCP ports. None is taken, results are right, and nothing stays
// behind.
func TestReconnectUnderReplay(t *testing.T) {
	rounds := 60
	switch {
	case verbstest.Full():
		rounds = 500
	case testing.Short():
		rounds = 5
	}
	servers := freshServers(t, 4)
	packets := tap(t, servers)
	frames := &tapes{servers: servers}
	histories := make([]ring.History, len(servers))
	var total replayed
	var before resources
	var epochs []uint32
	for round := range rounds {
		// No packet goes as one of a train, which would be played back as one.
		inject := fmt.Sprintf("soft: corrupt 1e-10%%, seed %d", round+1)
		packets.turn()
		frames.turn()
		var playing sync.WaitGroup
		ctx, stop := context.WithCancel(context.Background())
		playing.Go(func() { packets.play(ctx, &total) })
		playing.Go(func() { frames.play(ctx, &total) })
		w := connectWorld(t, servers, func(rank int) ring.Options {
			return ring.Options{Device: "soft:lo", Inject: inject, History: &histories[rank], Dial: frames.dialler(rank)}
		}, nil)
		epoch := w.rings[0].Epoch()
		if round > 0 && epoch != epochs[round-1]+1 {
			t.Errorf("epoch %d follows %d", epoch, epochs[round-1])
		}
		epochs = append(epochs, epoch)
		way := CallOptions{Protocol: []Protocol{Eager, RendezvousWrite, RendezvousRead}[round%3]}
		k := newKit(w, 20000, reduce.Float32, reduce.Sum)
		k.expect(20000)
		for range 3 {
			k.check(OpAllReduce, 20000, way, false)
		}
		if !total.waitFor(int64(round), 200) && round > 0 {
			t.Logf("round %d: little was played back", round)
		}
		k.check(OpAllReduce, 20000, way, true)
		stop()
		playing.Wait()
		total.count(t, w)
		if round%2 == 1 { // the ring fails in the middle
			ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
			w.each(func(rank int, c *Comm) error {
				err := error(nil)
				for err == nil {
					err = c.AllReduce(ctx, k.send[rank].Addr(), k.recv[rank].Addr(), 20000, reduce.Float32, reduce.Sum, way)
				}
				return err
			})
			cancel()
		}
		w.close()
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
		if round == 3 {
			before = resourcesNow(t)
		}
	}
	after := resourcesNow(t)
	if after.files > before.files || after.goroutines > before.goroutines+2 || after.mappings > before.mappings+16+rounds/10 || after.memfds > before.memfds {
		t.Errorf("%+v after round 4 and %+v after %d: something stays behind", before, after, rounds)
	}
	t.Logf("%d rounds: %d packets and %d conversations of the last epoch were played back; %d packets and %d frames were dropped, %d conversations refused, none taken; %+v, then %+v",
		rounds, total.packets.Load(), total.conversations.Load(), total.dropped, total.stale, total.refused.Load(), before, after)
	if rounds > 2 && (total.packets.Load() == 0 || total.dropped == 0 || total.refused.Load() == 0) {
		t.Error("nothing was played back, or nothing arrived")
	}
}

// TestReplayWhileItRuns plays back, byte for byte and from the peers' own addresses and ports,
// what a ring has sent a moment before, while it goes on: results are right.
func TestReplayWhileItRuns(t *testing.T) {
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	servers := freshServers(t, 3)
	packets := tap(t, servers)
	const inject = "soft: corrupt 1e-10%, seed 1" // no packet goes as one of a train
	w := connectWorld(t, servers, func(int) ring.Options {
		return ring.Options{Device: "soft:lo", Inject: inject}
	}, nil)
	k := newKit(w, 20000, reduce.Float32, reduce.Sum)
	k.expect(20000)
	var total replayed
	packets.turn()
	for range rounds {
		for _, p := range []Protocol{Eager, RendezvousWrite, RendezvousRead} {
			way := CallOptions{Protocol: p}
			k.check(OpAllReduce, 20000, way, false)
			packets.turn() // what this has sent is played back
			var playing sync.WaitGroup
			ctx, stop := context.WithCancel(context.Background())
			playing.Go(func() { packets.play(ctx, &total) })
			for range 5 {
				k.check(OpAllReduce, 20000, way, false)
			}
			stop()
			playing.Wait()
		}
	}
	w.close()
	t.Logf("%d packets were played back", total.packets.Load())
	if total.packets.Load() == 0 {
		t.Error("nothing was played back")
	}
}

// replayed counts what was played back, and what became of it.
type replayed struct {
	packets, conversations, refused atomic.Int64
	dropped, stale                  uint64
}

// waitFor waits until so many packets were played back for a round, at most a second.
func (r *replayed) waitFor(round, each int64) bool {
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if r.packets.Load() >= round*each {
			return true
		}
	}
	return false
}

// count sees that what came and was not sent by the ring was dropped.
func (r *replayed) count(t *testing.T, w *world) {
	t.Helper()
	sum := map[string]uint64{}
	for rank := range w.rings {
		counters, err := w.rings[rank].Devices()[0].Counters()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range counters {
			sum[c.Name] += c.Value
		}
		if n := w.rings[rank].Control().Stale(); n > 0 { // frames, in conversations that were refused
			r.stale += n
		}
	}
	dropped := sum["unknown_qp"] + sum["wrong_peer"] + sum["icrc_error"] + sum["malformed_packets"]
	if sum["port_rcv_packets"] > sum["port_xmit_packets"]+dropped {
		t.Errorf("%d packets came, of which %d were dropped, but %d were sent: %d of an earlier epoch were taken",
			sum["port_rcv_packets"], dropped, sum["port_xmit_packets"], sum["port_rcv_packets"]-sum["port_xmit_packets"]-dropped)
	}
	r.dropped += dropped
}

// resources are what a process holds. A few mappings come with the runtime's heap.
type resources struct{ files, goroutines, mappings, memfds int }

func resourcesNow(t *testing.T) resources {
	t.Helper()
	runtime.GC()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return resources{len(files), runtime.NumGoroutine(), bytes.Count(maps, []byte("\n")), bytes.Count(maps, []byte("/memfd:"))}
}

// wiretap hears what the ranks send to UDP ports, and sends it again.
type wiretap struct {
	fd      int // hears
	raw     int // speaks: what a packet socket sends to lo is taken for a martian's
	subnet  netip.Prefix
	hearing sync.WaitGroup
	over    atomic.Bool

	mu        sync.Mutex
	now, last [][]byte            // frames; guarded by mu
	played    map[string]struct{} // payloads of last, which are heard again; guarded by mu
}

// mostTaped bounds the packets that are kept of an epoch.
const mostTaped = 4000

// tap hears the ranks' packets until the test ends. It skips a test that may not.
func tap(t *testing.T, servers []string) *wiretap {
	t.Helper()
	packets, err := newWiretap(servers)
	if err != nil {
		t.Skipf("packets are played back by root alone: %v", err)
	}
	t.Cleanup(func() {
		if err := packets.close(); err != nil {
			t.Error(err)
		}
	})
	return packets
}

func newWiretap(servers []string) (*wiretap, error) {
	subnet, err := netip.MustParseAddr(servers[0]).Prefix(24)
	if err != nil {
		return nil, err
	}
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		return nil, err
	}
	const protocol = unix.ETH_P_IP<<8&0xff00 | unix.ETH_P_IP>>8 // big-endian
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, err
	}
	w := &wiretap{fd: fd, subnet: subnet}
	if w.raw, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	tv := unix.NsecToTimeval(int64(50 * time.Millisecond))
	if err := errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: lo.Index})); err != nil {
		return nil, errors.Join(err, unix.Close(fd), unix.Close(w.raw))
	}
	w.hearing.Go(w.hear)
	return w, nil
}

// Offsets in a frame: Ethernet, IPv4 without options, UDP.
const (
	atIP  = 14
	atUDP = atIP + 20
)

func (w *wiretap) hear() {
	b := make([]byte, 1<<16)
	for {
		n, from, err := unix.Recvfrom(w.fd, b, 0)
		if w.over.Load() {
			return
		}
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return
		}
		link, ok := from.(*unix.SockaddrLinklayer)
		if !ok || link.Pkttype != unix.PACKET_HOST || n < atUDP+8 || b[atIP] != 0x45 || b[atIP+9] != unix.IPPROTO_UDP {
			continue
		}
		if to := netip.AddrFrom4([4]byte(b[atIP+16 : atIP+20])); !w.subnet.Contains(to) {
			continue
		}
		w.mu.Lock()
		if _, own := w.played[string(b[atUDP+8:n])]; !own && len(w.now) < mostTaped {
			frame := bytes.Clone(b[:n])
			// What leaves by lo has half a checksum; none is one, and RoCE's own leaves it out.
			binary.BigEndian.PutUint16(frame[atUDP+6:], 0)
			w.now = append(w.now, frame)
		}
		w.mu.Unlock()
	}
}

// turn begins an epoch: what was heard is the last one's.
func (w *wiretap) turn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.now, w.played = w.now, nil, make(map[string]struct{})
	for _, frame := range w.last {
		w.played[string(frame[atUDP+8:])] = struct{}{}
	}
}

// play sends the last epoch's packets again and again.
func (w *wiretap) play(ctx context.Context, r *replayed) {
	for ctx.Err() == nil && len(w.last) > 0 {
		for i, frame := range w.last {
			if i%64 == 0 && ctx.Err() != nil {
				return
			}
			if unix.Sendto(w.raw, frame[atIP:], 0, &unix.SockaddrInet4{Addr: [4]byte(frame[atIP+16 : atIP+20])}) == nil {
				r.packets.Add(1)
			}
		}
	}
}

func (w *wiretap) close() error {
	w.over.Store(true)
	w.hearing.Wait()
	return errors.Join(unix.Close(w.fd), unix.Close(w.raw))
}

// tapes keep what each rank says to its right neighbour over TCP, and say it again.
type tapes struct {
	servers []string

	mu        sync.Mutex
	now, last []*bytes.Buffer // one for each connection, with its address; guarded by mu
	to        map[*bytes.Buffer]string
}

type taped struct {
	net.Conn
	t *tapes
	b *bytes.Buffer
}

func (c taped) Write(b []byte) (int, error) {
	c.t.mu.Lock()
	c.b.Write(b)
	c.t.mu.Unlock()
	return c.Conn.Write(b)
}

func (t *tapes) dialler(int) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		b := &bytes.Buffer{}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.now, t.to[b] = append(t.now, b), address
		return taped{c, t, b}, nil
	}
}

func (t *tapes) turn() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last, t.now = t.now, nil
	kept := make(map[*bytes.Buffer]string)
	for _, b := range t.last {
		kept[b] = t.to[b]
	}
	t.to = kept
}

// play says what was said in the last epoch, and counts who is told that it is not taken.
func (t *tapes) play(ctx context.Context, r *replayed) {
	for ctx.Err() == nil && len(t.last) > 0 {
		for _, b := range t.last {
			t.mu.Lock()
			to := t.to[b]
			t.mu.Unlock()
			conn, err := net.DialTimeout("tcp", to, time.Second)
			if err != nil {
				continue // it does not listen yet
			}
			_ = conn.SetDeadline(time.Now().Add(time.Second))
			if _, err := conn.Write(b.Bytes()); err == nil {
				r.conversations.Add(1)
				if f, err := oob.ReadFrame(conn); err == nil && f.Type == bootstrap.TypeReject {
					r.refused.Add(1)
				}
			}
			_, _ = io.Copy(io.Discard, io.LimitReader(conn, 1<<10))
			_ = conn.Close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestReconnectOverSharedMemory leaves no memfd, mapping or descriptor, whether the ring
// ended well or in the middle of something.
func TestReconnectOverSharedMemory(t *testing.T) {
	rounds := 60
	switch {
	case verbstest.Full():
		rounds = 500
	case testing.Short():
		rounds = 6
	}
	servers := freshServers(t, 4)
	histories := make([]ring.History, len(servers))
	var before resources
	for round := range rounds {
		w := connectWorld(t, servers, func(rank int) ring.Options {
			return ring.Options{Device: "shm", History: &histories[rank]}
		}, nil)
		k := newKit(w, 20000, reduce.Int32, reduce.Sum)
		k.expect(20000)
		k.check(OpAllReduce, 20000, CallOptions{}, false)
		if round%2 == 1 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
			w.each(func(rank int, c *Comm) error {
				err := error(nil)
				for err == nil {
					err = c.AllReduce(ctx, k.send[rank].Addr(), k.recv[rank].Addr(), 20000, reduce.Int32, reduce.Sum, CallOptions{})
				}
				return err
			})
			cancel()
		}
		w.close()
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
		if round == 3 {
			before = resourcesNow(t)
		}
	}
	if after := resourcesNow(t); after.files > before.files || after.goroutines > before.goroutines+2 || after.mappings > before.mappings+16+rounds/10 || after.memfds > before.memfds {
		t.Errorf("%+v after round 4 and %+v after %d: something stays behind", before, after, rounds)
	}
}
