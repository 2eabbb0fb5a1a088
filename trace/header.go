package trace

import (
	"errors"
	"fmt"
)

// fileFormat and fileVersion are in the header of every file.
const (
	fileFormat  = "ringcli-trace"
	fileVersion = 1
)

// What a file may say, so that a damaged one can make no arithmetic overflow.
const (
	maxRanks = 1 << 16
	maxBase  = 1 << 62 // in the year 2116
	maxTime  = 1 << 57 // 4 years after the base
)

// header says in "otherData" of a file what a recording is of.
type header struct {
	Type    string `json:"type"` // "recording"
	Format  string `json:"format"`
	Version int    `json:"version"`
	Base    int64  `json:"base"` // ns since the Unix epoch; times of events count from it
	Count   int    `json:"events"`
	*Recording
}

func newHeader(r *Recording, base int64) header {
	return header{"recording", fileFormat, fileVersion, base, len(r.Events), r}
}

func (h *header) check() error {
	switch {
	case h.Format != fileFormat:
		return fmt.Errorf("trace: format %q: want %q, as trace dump and trace merge write", h.Format, fileFormat)
	case h.Version != fileVersion:
		return fmt.Errorf("trace: version %d of the trace format: this program reads version %d; use the program that wrote it", h.Version, fileVersion)
	case h.Recording == nil:
		return errors.New("trace: a header without a rank: want what trace dump and trace merge write")
	case h.Size < 0 || h.Size > maxRanks || h.Rank < -1 || h.Rank >= maxRanks:
		return fmt.Errorf("trace: rank %d of %d: want at most %d ranks", h.Rank, h.Size, maxRanks)
	case h.Base < 0 || h.Base > maxBase:
		return fmt.Errorf("trace: base %d: want nanoseconds since 1970", h.Base)
	}
	for _, s := range h.Clock {
		if s.At < 0 || s.At > maxBase || s.Offset < -maxBase || s.Offset > maxBase || s.RTT < 0 || s.RTT > maxTime {
			return fmt.Errorf("trace: clock sample %+v: want times in nanoseconds, and a round trip that is not negative", s)
		}
	}
	return nil
}

// baseOf is the earliest start, from which a file counts its times: numbers
// that a float64 holds exactly.
func baseOf(list []Recording) int64 {
	base, found := int64(0), false
	for _, r := range list {
		if len(r.Events) > 0 && (!found || r.Events[0].Start < base) {
			base, found = r.Events[0].Start, true
		}
	}
	return base
}
