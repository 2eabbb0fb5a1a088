package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// header is the first line of a recording in JSON lines, and stands in
// "otherData" of a Chrome file.
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

// lineEvent is an event in JSON lines.
type lineEvent struct {
	Type      EventType `json:"type"`
	Rank      int       `json:"rank"`
	Subsystem string    `json:"subsystem"`
	Name      string    `json:"name,omitempty"`
	Text      string    `json:"text,omitempty"` // of a log event, instead of a name
	Level     string    `json:"level,omitempty"`
	Start     int64     `json:"start"` // ns since the header's base
	End       *int64    `json:"end,omitempty"`
	Args      Args      `json:"args,omitempty"`
}

// writeLines writes for each recording a line with its header, and then its
// events, one a line.
func writeLines(w io.Writer, list []Recording) error {
	b := bufio.NewWriter(w)
	out := json.NewEncoder(b)
	out.SetEscapeHTML(false)
	base := baseOf(list)
	for i := range list {
		r := &list[i]
		if err := out.Encode(newHeader(r, base)); err != nil {
			return err
		}
		for _, e := range r.Events {
			line := lineEvent{Type: e.Type, Rank: r.Rank, Subsystem: e.Subsystem, Name: e.Name, Level: e.Level, Start: e.Start - base, Args: e.Args}
			switch e.Type {
			case SpanEvent:
				end := e.End - base
				line.End = &end
			case LogEvent:
				line.Name, line.Text = "", e.Name
			}
			if err := out.Encode(line); err != nil {
				return err
			}
		}
	}
	return b.Flush()
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

// readLines reads what writeLines has written: first is the first line, and
// the decoder stands behind it.
func readLines(first json.RawMessage, in *json.Decoder) ([]Recording, error) {
	var list []Recording
	for {
		h := header{Recording: &Recording{}}
		if err := json.Unmarshal(first, &h); err != nil {
			return nil, fmt.Errorf("trace: header of recording %d: %w", len(list), err)
		}
		if err := h.check(); err != nil {
			return nil, err
		}
		r := *h.Recording
		r.Events = make([]Event, 0, min(max(h.Count, 0), Records+LogTexts))
		for i := range h.Count {
			var line lineEvent
			err := in.Decode(&line)
			if errors.Is(err, io.EOF) {
				err = errors.New("the file ends before it")
			}
			if err == nil {
				err = r.addLine(&line, h.Base)
			}
			if err != nil {
				return nil, fmt.Errorf("trace: event %d of the %d of rank %d: %w", i+1, h.Count, r.Rank, err)
			}
		}
		sortEvents(r.Events)
		list = append(list, r)
		switch err := in.Decode(&first); {
		case errors.Is(err, io.EOF):
			return list, nil
		case err != nil:
			return nil, fmt.Errorf("trace: header of recording %d: %w", len(list), err)
		}
	}
}

func (r *Recording) addLine(line *lineEvent, base int64) error {
	// Recordings in one file have one base, and their clocks may be far apart.
	least, most := -base, maxBase+maxTime-base
	if line.Start < least || line.Start > most || line.End != nil && (*line.End < least || *line.End > most) {
		return fmt.Errorf("start %d: want nanoseconds after the base %d, at least %d and at most %d", line.Start, base, least, most)
	}
	e := Event{Type: line.Type, Subsystem: line.Subsystem, Name: line.Name, Level: line.Level, Start: base + line.Start, End: base + line.Start, Args: line.Args}
	switch line.Type {
	case SpanEvent:
		if line.End == nil || *line.End < line.Start {
			return errors.New("a span without an end: want one that is not before its start")
		}
		e.End = base + *line.End
	case LogEvent:
		e.Name = line.Text
	case InstantEvent:
	default:
		return fmt.Errorf("type %q: want %s, %s or %s", line.Type, SpanEvent, InstantEvent, LogEvent)
	}
	r.Events = append(r.Events, e)
	return nil
}
