package ibvtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// QP is a queue pair as the kernel has it: a row of `rdma resource show qp -j`.
type QP struct {
	Device  string `json:"ifname"`
	Port    int    `json:"port"`
	QPN     uint32 `json:"lqpn"`
	DestQPN uint32 `json:"rqpn"`
	Type    string `json:"type"`  // RC, UD, GSI, ...
	State   string `json:"state"` // RESET, INIT, RTR, RTS, SQD, SQE, ERR
	RQPSN   uint32 `json:"rq-psn"`
	SQPSN   uint32 `json:"sq-psn"`
	PathMig string `json:"path-mig-state"`
	PID     int    `json:"pid"`  // 0: of the kernel
	Comm    string `json:"comm"` // the program
}

// ParseQPs reads the output of `rdma resource show qp -j`.
func ParseQPs(r io.Reader) ([]QP, error) {
	var list []QP
	if err := json.NewDecoder(r).Decode(&list); err != nil {
		return nil, fmt.Errorf("rdma resource show qp -j: %w", err)
	}
	return list, nil
}

// status is what CompareQPs reads of a line of `ringcli status --output json`: one
// of this rank's own ends, or of all ranks' edges.
type status struct {
	Command string `json:"command"`
	Device  string `json:"device"`
	Whose   string `json:"whose"` // "own", "peer"; empty where all ranks show theirs
	Rank    int    `json:"rank"`
	Side    string `json:"side"`
	State   string `json:"qp_state"`
	QPN     uint32 `json:"qpn"`
	DestQPN uint32 `json:"dest_qpn"`
	PeerQPN uint32 `json:"peer_qpn"` // of all ranks' edges
	RQPSN   uint32 `json:"rq_psn"`
	SQPSN   uint32 `json:"sq_psn"`
}

// CompareQPs compares a rank's queue pairs in the output of `ringcli status --output
// json` with what the kernel it runs on says of them. Both must have been asked while
// nothing was sent. It returns how many queue pairs were compared and a sentence for
// each value that differs. Attributes that a state does not have yet are not compared.
func CompareQPs(kernel []QP, rank int, output io.Reader) (compared int, differences []string, err error) {
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var s status
		if json.Unmarshal(lines.Bytes(), &s) != nil || s.Command != "status" || s.QPN == 0 || s.Rank != rank || s.Whose == "peer" {
			continue
		}
		compared++
		differences = append(differences, s.compare(kernel)...)
	}
	return compared, differences, lines.Err()
}

func (s status) compare(kernel []QP) (differences []string) {
	for _, q := range kernel {
		if "ibv:"+q.Device != s.Device || q.QPN != s.QPN {
			continue
		}
		differ := func(name string, theirs, ours any) {
			if theirs != ours {
				differences = append(differences, fmt.Sprintf("%s edge, QP 0x%06x: %s: the kernel has %v, status %v", s.Side, s.QPN, name, theirs, ours))
			}
		}
		differ("type", q.Type, "RC")
		differ("state", q.State, s.State)
		if s.State == "RTR" || s.State == "RTS" {
			differ("rqpn", q.DestQPN, max(s.DestQPN, s.PeerQPN))
			differ("rq-psn", q.RQPSN, s.RQPSN)
		}
		if s.State == "RTS" {
			differ("sq-psn", q.SQPSN, s.SQPSN)
		}
		return differences
	}
	return []string{fmt.Sprintf("%s edge: %s has no QP 0x%06x in the kernel", s.Side, s.Device, s.QPN)}
}
