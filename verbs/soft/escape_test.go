package soft

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"ringcli/verbs/soft/wire"
)

// receiver is a queue pair as far as it checks packets, and a sound packet of a soft peer.
func receiver(payload int, id uint16) (*qp, []byte) {
	peer, local := netip.MustParseAddrPort("127.9.9.1:4791"), netip.MustParseAddrPort("127.9.9.2:4791")
	q := &qp{ep: &endpoint{local: local}, peer: peer, lowIPIDs: true, rx: wire.NewFlow(peer, local)}
	b := make([]byte, wire.BTHLen+payload+wire.ICRCLen)
	rnd := rand.New(rand.NewPCG(uint64(payload), uint64(id)))
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	end := len(b) - wire.ICRCLen
	crc := wire.Update(q.rx.Start(id, len(b), b[:wire.BTHLen]), b[wire.BTHLen:end])
	wire.PutICRC(b[end:], crc)
	return q, b
}

// TestFewBitsAreFound: no damage of one bit passes, wherever it is in a packet, and of two
// bits in a short one none does, but for what the IP ID explains: no sender's.
func TestFewBitsAreFound(t *testing.T) {
	for _, payload := range []int{0, 4, 64, 256, 1024, 4096} {
		q, b := receiver(payload, 5)
		if !q.verify(b, q.peer, 5) {
			t.Fatalf("%d bytes: the sound packet is refused", payload)
		}
		for i := range b {
			for bit := range 8 {
				b[i] ^= 1 << bit
				// The byte of BTH that switches may change is not covered.
				if covered := i != 4; q.verify(b, q.peer, 5) == covered {
					t.Errorf("%d bytes: bit %d of byte %d flipped: taken is %v", payload, bit, i, !covered)
				}
				b[i] ^= 1 << bit
			}
		}
	}
	q, b := receiver(64, 5)
	passed, tried := 0, 0
	for i := wire.BTHLen * 8; i < len(b)*8; i++ {
		b[i/8] ^= 1 << (i % 8)
		for j := wire.BTHLen * 8; j < i; j++ {
			b[j/8] ^= 1 << (j % 8)
			if tried++; q.verify(b, q.peer, 5) {
				passed++
			}
			b[j/8] ^= 1 << (j % 8)
		}
		b[i/8] ^= 1 << (i % 8)
	}
	t.Logf("of %d damages of two bits of 64 bytes %d pass", tried, passed)
	if passed > 0 {
		t.Errorf("%d of %d damages of two bits pass", passed, tried)
	}
}

// escapes is how many damaged packets TestEscapes checks: RINGTEST_ESCAPES is its power of
// two. 31 take some minutes.
func escapes() uint64 {
	power, err := strconv.Atoi(os.Getenv("RINGTEST_ESCAPES"))
	if err != nil {
		power = 26
	}
	return 1 << power
}

// TestEscapes: of packets whose payload became noise as many pass as the ICRC leaves: since
// the IP ID is solved for, the 128 that a soft peer may use explain as many ICRCs of 2^32.
func TestEscapes(t *testing.T) {
	if testing.Short() {
		t.Skip("in test-long")
	}
	n, workers := escapes(), runtime.GOMAXPROCS(0)
	begun := time.Now()
	found := make([]uint64, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			const payload = 16
			q, b := receiver(payload, 5)
			rnd := rand.New(rand.NewPCG(uint64(w), 99))
			sound := binary.LittleEndian.Uint64(b[wire.BTHLen:])
			for range n / uint64(workers) {
				noise := rnd.Uint64()
				if noise == 0 {
					continue
				}
				binary.LittleEndian.PutUint64(b[wire.BTHLen:], sound^noise)
				if q.verify(b, q.peer, 5) {
					found[w]++
				}
			}
		})
	}
	wg.Wait()
	passed := uint64(0)
	for _, f := range found {
		passed += f
	}
	expected := float64(n) * softIDs / (1 << 32)
	t.Logf("%d damaged packets, %d passed: 2^%.2f; expected %.1f (2^-25), in %s", n, passed, math.Log2(float64(passed)/float64(n)), expected, time.Since(begun).Round(time.Millisecond))
	if off := math.Abs(float64(passed) - expected); off > 5*math.Sqrt(expected)+1 {
		t.Errorf("%d of %d damaged packets passed: expected %.1f", passed, n, expected)
	}
}
