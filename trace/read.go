package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// ErrFile is wrapped by errors about files that are no recordings.
var ErrFile = errors.New("trace: not a recording of ringcli")

// Read reads the recordings of a file in either dump format: one that WriteRecordings has
// written, or those of all ranks that a merge has.
func Read(r io.Reader) ([]Recording, error) {
	in := json.NewDecoder(bufio.NewReader(r))
	var first json.RawMessage
	if err := in.Decode(&first); err != nil {
		return nil, fmt.Errorf("%w: want Chrome JSON or JSON lines: %w", ErrFile, err)
	}
	var what struct {
		Type   string          `json:"type"`
		Events json.RawMessage `json:"traceEvents"`
	}
	if err := json.Unmarshal(first, &what); err != nil {
		return nil, fmt.Errorf("%w: want Chrome JSON or JSON lines: %w", ErrFile, err)
	}
	switch {
	case what.Events != nil:
		return readChrome(first)
	case what.Type == "recording":
		return readLines(first, in)
	}
	return nil, fmt.Errorf("%w: neither Chrome JSON nor JSON lines with a header", ErrFile)
}

// ReadFile reads the recordings of the file at path.
func ReadFile(path string) ([]Recording, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	list, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i := range list {
		list[i].Source = path
	}
	return list, nil
}

// chromeFile is the file that writeChrome writes.
type chromeFile struct {
	Other  chromeOther `json:"otherData"`
	Events []struct {
		chromeEvent
		Args json.RawMessage `json:"args"`
	} `json:"traceEvents"`
}

// readChrome reads what writeChrome has written. Metadata and arrows follow
// from the rest, and are left out.
func readChrome(file json.RawMessage) ([]Recording, error) {
	var c chromeFile
	if err := json.Unmarshal(file, &c); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	if len(c.Other.Recordings) == 0 {
		return nil, fmt.Errorf("%w: a Chrome trace of another program, without recordings in otherData", ErrFile)
	}
	list := make([]Recording, len(c.Other.Recordings))
	byPID := map[int]int{}
	for i, h := range c.Other.Recordings {
		if err := h.check(); err != nil {
			return nil, err
		}
		list[i] = *h.Recording
		byPID[max(h.Rank, 0)] = i
	}
	for i, e := range c.Events {
		if e.Phase != "X" && e.Phase != "i" {
			continue
		}
		at, ok := byPID[e.PID]
		if !ok {
			return nil, fmt.Errorf("%w: event %d has pid %d, which is no rank of otherData", ErrFile, i, e.PID)
		}
		start := c.Other.Recordings[at].Base + int64(e.Time)
		out := Event{Type: SpanEvent, Subsystem: e.Cat, Name: e.Name, Start: start, End: start}
		var err error
		switch {
		case e.Phase == "X":
			if e.Dur == nil || *e.Dur < 0 {
				return nil, fmt.Errorf("%w: event %d is a span without a duration", ErrFile, i)
			}
			out.End += int64(*e.Dur)
		case e.Cat == "log":
			var log logArgs
			err = json.Unmarshal(e.Args, &log)
			out.Type, out.Subsystem, out.Level = LogEvent, log.Subsystem, log.Level
		default:
			out.Type = InstantEvent
		}
		if len(e.Args) > 0 && out.Type != LogEvent && err == nil {
			err = json.Unmarshal(e.Args, &out.Args)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: event %d: %w", ErrFile, i, err)
		}
		list[at].Events = append(list[at].Events, out)
	}
	for i, h := range c.Other.Recordings {
		if got := len(list[i].Events); got != h.Count {
			return nil, fmt.Errorf("%w: %d events of rank %d: its header says %d", ErrFile, got, h.Rank, h.Count)
		}
		sortEvents(list[i].Events)
	}
	return list, nil
}

// UnmarshalJSON reads microseconds with up to three decimals, exactly.
func (m *micros) UnmarshalJSON(b []byte) error {
	whole, fraction, _ := strings.Cut(string(bytes.TrimSpace(b)), ".")
	if len(fraction) > 3 || len(whole) > 15 {
		return fmt.Errorf("trace: time %.40s: want microseconds with at most three decimals", b)
	}
	ns, err := strconv.ParseUint(whole+fraction+"000"[len(fraction):], 10, 63)
	if err != nil || ns > maxTime {
		return fmt.Errorf("trace: time %.40s: want microseconds with at most three decimals", b)
	}
	*m = micros(ns)
	return nil
}
