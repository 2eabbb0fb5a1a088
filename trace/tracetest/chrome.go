// Package tracetest checks what package trace and those below it write, for tests.
package tracetest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
)

// checkedEvent is an event of any Chrome trace, with what is missing as nil.
type checkedEvent struct {
	Name  *string         `json:"name"`
	Cat   string          `json:"cat"`
	Phase *string         `json:"ph"`
	Time  *float64        `json:"ts"` // us
	Dur   *float64        `json:"dur"`
	PID   *int            `json:"pid"`
	TID   *int            `json:"tid"`
	ID    json.RawMessage `json:"id"`
	Scope string          `json:"s"`
	Args  map[string]any  `json:"args"`

	index    int
	from, to int64 // ns
}

// thread is where spans must nest.
type thread struct{ pid, tid int }

// arrow is what its events share.
type arrow struct{ cat, id string }

// CheckChrome checks a trace in Chrome's JSON format, as "Trace Event Format"
// has it: every event has a name, ph, ts, pid and tid of the right types, X a
// duration that is not negative, M a known argument, and i a scope; the X
// spans of a thread nest; each arrow has one s and an f that is not before it,
// and both lie in spans. Of other events ringcli writes none. It returns the
// first fault.
func CheckChrome(r io.Reader) error {
	var file struct {
		Events *[]json.RawMessage `json:"traceEvents"`
	}
	in := json.NewDecoder(r)
	if err := in.Decode(&file); err != nil {
		return fmt.Errorf("trace: chrome file: %w", err)
	}
	if _, err := in.Token(); err != io.EOF {
		return fmt.Errorf("trace: chrome file: something stands behind the object")
	}
	if file.Events == nil {
		return fmt.Errorf("trace: chrome file: no traceEvents")
	}
	c := checker{spans: map[thread][]checkedEvent{}, arrows: map[arrow][]checkedEvent{}, reach: map[thread]reach{}}
	events := make([]checkedEvent, len(*file.Events))
	for i, raw := range *file.Events {
		if err := readChecked(raw, i, &events[i]); err != nil {
			return fmt.Errorf("trace: chrome event %d %s: %w", i, bytes.TrimSpace(raw), err)
		}
	}
	// A file need not be in the order of time, but arrows are read so.
	slices.SortStableFunc(events, func(a, b checkedEvent) int { return cmp.Compare(a.from, b.from) })
	for i := range events {
		if err := c.add(&events[i]); err != nil {
			return fmt.Errorf("trace: chrome event %d %q: %w", events[i].index, *events[i].Name, err)
		}
	}
	return c.finish()
}

// readChecked reads an event and looks at its fields one by one.
func readChecked(raw json.RawMessage, index int, e *checkedEvent) error {
	if err := json.Unmarshal(raw, e); err != nil {
		return err
	}
	e.index = index
	switch {
	case e.Phase == nil:
		return fmt.Errorf("no ph")
	case e.Name == nil || *e.Name == "":
		return fmt.Errorf("no name")
	case e.PID == nil:
		return fmt.Errorf("no pid")
	case e.TID == nil:
		return fmt.Errorf("no tid")
	case e.Time == nil && *e.Phase != "M":
		return fmt.Errorf("no ts")
	case e.Time != nil && *e.Time < 0:
		return fmt.Errorf("ts is negative")
	}
	if e.Time != nil {
		e.from = int64(math.Round(*e.Time * 1000))
	}
	e.to = e.from
	if *e.Phase == "X" {
		if e.Dur == nil || *e.Dur < 0 {
			return fmt.Errorf("no dur, or a negative one")
		}
		e.to += int64(math.Round(*e.Dur * 1000))
	}
	return nil
}

type checker struct {
	spans  map[thread][]checkedEvent // X
	arrows map[arrow][]checkedEvent  // s, f
	reach  map[thread]reach          // of the spans
}

func (c *checker) add(e *checkedEvent) error {
	switch *e.Phase {
	case "X":
		t := thread{*e.PID, *e.TID}
		c.spans[t] = append(c.spans[t], *e)
	case "s", "f":
		if len(e.ID) == 0 {
			return fmt.Errorf("ph %s without an id", *e.Phase)
		}
		id := arrow{e.Cat, string(e.ID)}
		c.arrows[id] = append(c.arrows[id], *e)
	case "i":
		if e.Scope != "t" && e.Scope != "p" && e.Scope != "g" {
			return fmt.Errorf("an instant of scope %q: want t, p or g", e.Scope)
		}
	case "M":
		return checkMetadata(e)
	default:
		return fmt.Errorf("unknown ph %q", *e.Phase)
	}
	return nil
}

func checkMetadata(e *checkedEvent) error {
	switch *e.Name {
	case "process_name", "thread_name":
		if name, ok := e.Args["name"].(string); !ok || name == "" {
			return fmt.Errorf("args have no name")
		}
	case "process_sort_index", "thread_sort_index":
		if _, ok := e.Args["sort_index"].(float64); !ok {
			return fmt.Errorf("args have no sort_index")
		}
	default:
		return fmt.Errorf("unknown metadata")
	}
	return nil
}

// finish looks at what only the whole file can tell.
func (c *checker) finish() error {
	for t, spans := range c.spans {
		if err := checkNesting(t, spans); err != nil {
			return err
		}
		c.reach[t] = newReach(spans)
	}
	for id, list := range c.arrows {
		if err := c.checkArrow(id, list); err != nil {
			return err
		}
	}
	return nil
}

func checkNesting(t thread, spans []checkedEvent) error {
	slices.SortStableFunc(spans, func(a, b checkedEvent) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to))
	})
	var around []*checkedEvent
	for i := range spans {
		e := &spans[i]
		for len(around) > 0 && around[len(around)-1].to <= e.from {
			around = around[:len(around)-1]
		}
		if n := len(around); n > 0 && e.to > around[n-1].to {
			return fmt.Errorf("trace: chrome event %d %q overlaps event %d %q on pid %d, tid %d: want one within the other",
				e.index, *e.Name, around[n-1].index, *around[n-1].Name, t.pid, t.tid)
		}
		around = append(around, e)
	}
	return nil
}

// checkArrow has the events of an arrow in the order of time.
func (c *checker) checkArrow(id arrow, list []checkedEvent) error {
	starts, ends := 0, 0
	for i := range list {
		e := &list[i]
		switch *e.Phase {
		case "s":
			starts++
		case "f":
			ends++
		}
		if !c.reach[thread{*e.PID, *e.TID}].holds(e.from) {
			return fmt.Errorf("trace: chrome event %d: arrow %s touches no span on pid %d, tid %d", e.index, id.id, *e.PID, *e.TID)
		}
	}
	if starts != 1 || ends < 1 {
		return fmt.Errorf("trace: chrome file: arrow %s has %d s and %d f: want one s and at least one f", id.id, starts, ends)
	}
	// The list is in the order of time.
	if start := slices.IndexFunc(list, func(e checkedEvent) bool { return *e.Phase == "s" }); list[0].from < list[start].from {
		return fmt.Errorf("trace: chrome event %d: arrow %s ends before its start", list[0].index, id.id)
	}
	return nil
}

// reach tells which times the spans of a thread cover: their starts in order,
// and how far those that have begun by then reach.
type reach struct{ from, to []int64 }

// newReach takes spans in the order of their starts.
func newReach(spans []checkedEvent) reach {
	var r reach
	to := int64(math.MinInt64)
	for i := range spans {
		to = max(to, spans[i].to)
		r.from = append(r.from, spans[i].from)
		r.to = append(r.to, to)
	}
	return r
}

func (r reach) holds(at int64) bool {
	begun, _ := slices.BinarySearch(r.from, at+1)
	return begun > 0 && r.to[begun-1] >= at
}
