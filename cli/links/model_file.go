package links

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"

	"ringcli/cli/exit"
	"ringcli/collective/model"
)

// measured is what model reads of a line that `links --output json` has written, of a
// directed pair.
type measured struct {
	OK       bool    `json:"ok"`
	Command  string  `json:"command"`
	From     pairEnd `json:"from"`
	To       pairEnd `json:"to"`
	FromHost string  `json:"from_host"`
	ToHost   string  `json:"to_host"`
	Device   string  `json:"device"`
	Latency  struct {
		P50 float64 `json:"p50"`
	} `json:"latency_us"`
	BW float64 `json:"write_GBps"`
}

// pairEnd is a rank; -1 where a line has several, as what is found about a node or a group.
type pairEnd int

// UnmarshalJSON implements json.Unmarshaler.
func (e *pairEnd) UnmarshalJSON(text []byte) error {
	if *e = -1; len(text) > 0 && text[0] == '[' {
		return nil
	}
	return json.Unmarshal(text, (*int)(e))
}

// cluster is what a file of measured links says.
type cluster struct {
	ranks int
	hosts []string // by rank; empty where it is not said
	edges map[model.Pair]model.Edge
	// device is that of the first pair, which says who moves the data.
	device string
}

const (
	// mostRanks is far more than anybody has, and what a table of a ring can be made for in
	// a moment.
	mostRanks = 1 << 16
	// longestLine is that of a file of links: of all records ours are the shortest.
	longestLine = 1 << 20
	// slowest, in us, and fastest, in GB/s, are beyond what anybody measures.
	slowest, fastest = 1e9, 1e6
)

// readLinks reads the figures of a cluster; "-" is standard input. Whoever writes to a pipe
// may take any time: ctx ends the wait, and leaves the reader behind until the process ends.
func readLinks(ctx context.Context, path string, stdin io.Reader) (c cluster, err error) {
	read := make(chan struct{})
	var came cluster
	var failed error
	go func() {
		defer close(read)
		came, failed = readFile(path, stdin)
	}()
	select {
	case <-read:
		return came, failed
	case <-ctx.Done():
		return c, context.Cause(ctx)
	}
}

func readFile(path string, stdin io.Reader) (c cluster, err error) {
	in := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return c, exit.Usagef("model: --from %s: %w: expected a file of `ringcli links --output json`, or - for standard input", path, err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	c, err = parseLinks(in)
	if err != nil {
		return c, exit.Usagef("model: --from %s: %w; expected the output of `ringcli links --ring --output json`, or of --mesh", path, err)
	}
	return c, nil
}

func parseLinks(in io.Reader) (c cluster, err error) {
	c.edges = map[model.Pair]model.Edge{}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, longestLine)
	number := 0
	for lines.Scan() {
		number++
		l := measured{From: -1, To: -1}
		switch err := json.Unmarshal(lines.Bytes(), &l); {
		case len(lines.Bytes()) == 0:
			continue
		case err != nil:
			return c, fmt.Errorf("line %d is no record of links: %.40q", number, lines.Text())
		case l.Command != "links" || l.From == -1 || l.To == -1:
			continue
		}
		if err := c.add(l); err != nil {
			return c, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return c, fmt.Errorf("line %d is longer than %d bytes", number+1, longestLine)
	} else if err != nil {
		return c, fmt.Errorf("line %d: %w", number+1, err)
	}
	if len(c.edges) == 0 {
		return c, fmt.Errorf("none of its %d lines is a pair of ranks", number)
	}
	if math.IsInf(model.Usual(slices.Collect(maps.Values(c.edges))).Beta, 1) {
		return c, fmt.Errorf("none of its %d pairs has a connection", len(c.edges))
	}
	for r := range c.ranks {
		next := model.Pair{From: r, To: (r + 1) % c.ranks}
		if _, ok := c.edges[next]; !ok {
			return c, fmt.Errorf("rank %d to rank %d is not in it, and every edge of the ring of %d has to be", next.From, next.To, c.ranks)
		}
	}
	return c, nil
}

// add takes a line in.
func (c *cluster) add(l measured) error {
	p := model.Pair{From: int(l.From), To: int(l.To)}
	switch _, twice := c.edges[p]; {
	case min(p.From, p.To) < 0 || max(p.From, p.To) >= mostRanks || p.From == p.To:
		return fmt.Errorf("from %d to %d: expected two ranks from 0 to %d", p.From, p.To, mostRanks-1)
	case twice:
		return fmt.Errorf("from %d to %d is there twice", p.From, p.To)
	case l.OK && l.Latency.P50 == 0 && l.BW > 0:
		return fmt.Errorf("from %d to %d has no latency, as what `links --shift` writes", p.From, p.To)
	case l.Latency.P50 < 0 || l.BW < 0 || l.OK && l.BW == 0 || l.Latency.P50 > slowest || l.BW > fastest:
		return fmt.Errorf("from %d to %d: latency_us.p50 %.4g, write_GBps %.4g: expected above zero, and at most %.0e and %.0e", p.From, p.To, l.Latency.P50, l.BW, slowest, fastest)
	}
	e := model.Edge{Alpha: l.Latency.P50 / 1e6, Beta: math.Inf(1)}
	if l.BW > 0 {
		e.Beta = 1 / (l.BW * 1e9)
	}
	c.edges[p] = e
	c.ranks = max(c.ranks, p.From+1, p.To+1)
	c.hosts = append(c.hosts, slices.Repeat([]string{""}, max(0, c.ranks-len(c.hosts)))...)
	for rank, host := range map[int]string{p.From: l.FromHost, p.To: l.ToHost} {
		if host != "" {
			c.hosts[rank] = host
		}
	}
	if c.device == "" {
		c.device = l.Device
	}
	return nil
}
