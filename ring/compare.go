package ring

import "fmt"

// Severity says how bad a finding is.
type Severity string

// The severities. A healthy ring has notes at most, in any state.
const (
	Fault   Severity = "fault"   // what is sent does not arrive, or fails
	Warning Severity = "warning" // some operations fail, or will
	Note    Severity = "note"    // good to know
)

// Finding is one thing that a comparison or a diagnosis found.
type Finding struct {
	Severity  Severity `json:"severity"`
	Attribute string   `json:"attribute"` // of the queue pair, as an End names it in JSON; or what else it is about
	Rank      int      `json:"rank"`      // where it is to be mended, as far as that can be told
	Own       string   `json:"own"`       // value at the own end
	Peer      string   `json:"peer"`      // value at the peer's
	Text      string   `json:"text"`      // cause and consequence, one sentence
	Fix       string   `json:"fix"`       // what to do
}

func (f Finding) String() string {
	if f.Fix == "" {
		return f.Text
	}
	return fmt.Sprintf("%s: %s", f.Text, f.Fix)
}

// Compare compares both ends of an edge: what must be equal, and what of one end
// must be what the other says. The worst comes first. It needs nothing but the
// two ends.
func Compare(own, peer End) []Finding {
	var found []Finding
	if own.PathMTU != 0 && peer.PathMTU != 0 && own.PathMTU != peer.PathMTU {
		found = append(found, Finding{Severity: Fault, Attribute: "path_mtu", Rank: own.Rank, Own: fmt.Sprint(own.PathMTU), Peer: fmt.Sprint(peer.PathMTU), Text: "the path MTUs differ"})
	}
	return found
}
