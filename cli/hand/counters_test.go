package hand

import "testing"

func TestUnitOf(t *testing.T) {
	for _, c := range [][3]string{
		{"ibv", "port_xmit_data", "4 bytes"}, {"soft", "port_rcv_data", "4 bytes"}, {"ibv", "port_rcv_packets", "packets"},
		{"ibv", "unicast_xmit_packets", "packets"}, {"ibv", "sent_pkts", "packets"}, {"ibv", "out_of_sequence", ""}, {"ibv", "rx_pause_duration", ""},
		{"soft", "out_of_sequence", "packets"}, {"soft", "sent_acks", "packets"}, {"shm", "sent_requests", ""}, {"soft", "local_ack_timeout_err", ""},
		{"collective", "sent", "bytes"}, {"collective", "reductions", ""}, {"ring", "right_2_sent_bytes", "bytes"},
	} {
		if got := unitOf(c[0], c[1]); got != c[2] {
			t.Errorf("%s of %s: unit %q, want %q", c[1], c[0], got, c[2])
		}
	}
}
