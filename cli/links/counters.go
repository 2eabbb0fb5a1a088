package links

import "strings"

// unseen says which of a pair's counts nobody made: 0 is not what they are.
type unseen uint8

const (
	resentUnseen unseen = 1 << iota
	lostUnseen
	rnrUnseen
	allUnseen = resentUnseen | lostUnseen | rnrUnseen
)

// The names of counters, by driver: those of the first row of which a device has the first.
var (
	// resentNames count packets that were sent again, or the times that a device went back to do so.
	resentNames = [][]string{
		{"retransmitted_requests"}, // soft
		{"completer_retry_err"},    // rdma_rxe
		{"to_retransmits"},         // bnxt_re
		{"local_ack_timeout_err", "packet_seq_err", "implied_nak_seq_err"}, // mlx5
	}
	// lostNames count answers of the other end that a packet is missing, which a busy machine does not
	// make.
	lostNames = [][]string{
		{"packet_seq_err", "implied_nak_seq_err"}, // soft, mlx5
		{"rcvd_seq_err"},      // rdma_rxe
		{"seq_err_naks_rcvd"}, // bnxt_re
	}
	// rnrNames count answers that no receive is posted.
	rnrNames = [][]string{
		{"rcvd_rnr_err"},      // soft, shm, rdma_rxe
		{"rnr_naks_rcvd"},     // bnxt_re
		{"rnr_nak_retry_err"}, // mlx5; of soft and shm it is what was given up for it
	}
)

// count takes in by how much the counters of the pair's device grew.
func (f *figures) count(before, after map[string]uint64) {
	f.Unseen = 0
	for _, c := range []struct {
		is    unseen
		names [][]string
		to    *float64
	}{{resentUnseen, resentNames, &f.Resent}, {lostUnseen, lostNames, &f.Lost}, {rnrUnseen, rnrNames, &f.RNR}} {
		n, known := grown(before, after, c.names)
		// Nothing is lost in shared memory, nor sent again.
		if *c.to = n; !known && (c.is == rnrUnseen || !strings.HasPrefix(f.Device, "shm:")) {
			f.Unseen |= c.is
		}
	}
}

func grown(before, after map[string]uint64, rows [][]string) (sum float64, known bool) {
	for _, names := range rows {
		if _, known := after[names[0]]; !known {
			continue
		}
		for _, name := range names {
			sum += float64(after[name] - min(before[name], after[name]))
		}
		return sum, true
	}
	return 0, false
}

// seen is a count as it is told: nil if nobody made it.
func (f *figures) seen(which unseen, n float64) *uint64 {
	if f.Unseen&which != 0 {
		return nil
	}
	count := uint64(n)
	return &count
}
