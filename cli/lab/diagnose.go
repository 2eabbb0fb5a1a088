package lab

import (
	"errors"
	"fmt"
	"strings"

	"ringcli/verbs"
)

// statusNames are those of enum ibv_wc_status, without IBV_WC_.
var statusNames = [...]string{
	"SUCCESS", "LOC_LEN_ERR", "LOC_QP_OP_ERR", "LOC_EEC_OP_ERR", "LOC_PROT_ERR", "WR_FLUSH_ERR", "MW_BIND_ERR", "BAD_RESP_ERR",
	"LOC_ACCESS_ERR", "REM_INV_REQ_ERR", "REM_ACCESS_ERR", "REM_OP_ERR", "RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR", "LOC_RDD_VIOL_ERR",
	"REM_INV_RD_REQ_ERR", "REM_ABORT_ERR", "INV_EECN_ERR", "INV_EEC_STATE_ERR", "FATAL_ERR", "RESP_TIMEOUT_ERR", "GENERAL_ERR",
}

func statusName(s verbs.Status) string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return s.String()
}

// Diagnosis is an error with what explains it.
type Diagnosis struct {
	Err error
	// Causes are what the values themselves show to be wrong.
	Causes []string
	// Meaning says what such an error is, in lines of at most 78 columns; may be "".
	Meaning string
}

func (d *Diagnosis) Error() string {
	if len(d.Causes) == 0 {
		return d.Err.Error()
	}
	return d.Err.Error() + ": " + strings.Join(d.Causes, "; ")
}

// Unwrap makes errors.Is and errors.As look at the error itself.
func (d *Diagnosis) Unwrap() error { return d.Err }

// diagnose compares what the queue pair and the request held with what the peer
// said of itself.
func (p *pair) diagnose(err error, r request) error {
	status, failed := failedStatus(err)
	if !failed {
		if errors.Is(err, verbs.ErrTimeout) {
			return &Diagnosis{Err: err, Causes: p.compare()}
		}
		return err
	}
	d, peer := &Diagnosis{Err: err, Meaning: meaning(status)}, p.peer
	switch status {
	case verbs.RemoteAccessError, verbs.RemoteInvalidRequest, verbs.RemoteOpError:
		if r.op == verbs.OpSend {
			break
		}
		first, key := p.target(r)
		if key != peer.RKey {
			d.Causes = append(d.Causes, fmt.Sprintf("the %s named rkey %#x, and the peer's region has rkey %#x", r.op, key, peer.RKey))
		}
		if last := first + uint64(p.process.o.Bytes); first < peer.RAddr || last < first || last > peer.RAddr+peer.Length {
			d.Causes = append(d.Causes, fmt.Sprintf("the %s reached for %d bytes at %#x, and the peer's region is %d bytes at %#x",
				r.op, p.process.o.Bytes, first, peer.Length, peer.RAddr))
		}
	case verbs.RetryExceeded, verbs.FlushError, verbs.ResponseTimeout:
		d.Causes = p.compare()
	}
	return d
}

// compare says where the live queue pair names another peer than the one that
// there is.
func (p *pair) compare() []string {
	a, _, err := p.QP.Query()
	if err != nil {
		return nil
	}
	var causes []string
	if a.DestQPN != p.peer.QPN {
		causes = append(causes, fmt.Sprintf("dest_qp_num is %s, and the peer's queue pair is %s", verbs.Hex(a.DestQPN), verbs.Hex(p.peer.QPN)))
	}
	if a.AH.IsGlobal && a.AH.GRH.DGID != p.peer.GID {
		causes = append(causes, fmt.Sprintf("dgid is %s, and the peer's is %s", a.AH.GRH.DGID, p.peer.GID))
	}
	return causes
}

// lostPackets says why an end that expects another first PSN than its peer sends
// hears nothing.
func (p *pair) lostPackets() string {
	if p.wrong.PSN == nil || *p.wrong.PSN == p.peer.PSN {
		return ""
	}
	return fmt.Sprintf("rq_psn was set to %s, and the peer's first packet has PSN %s: it is taken for an old one or for one too early, and is not delivered",
		verbs.Hex(*p.wrong.PSN), verbs.Hex(p.peer.PSN))
}
