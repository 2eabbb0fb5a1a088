//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// ringcli measures ringcli's WRITE on a device: its bandwidth in MB/s and its median
// latency in microseconds, of half a round trip. Every byte is checked. Rank 0 is in
// the sender.
func (b *bench) ringcli(ctx context.Context, device string, size uint64) (bw, latency float64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, deadline, fmt.Errorf("not ended after %s", deadline))
	defer cancel()
	list := b.rack.Address(sender).String() + "," + b.rack.Address(peer).String()
	line := fmt.Sprintf("bench p2p --verbs write -b %d -e %d --iters %d --outstanding %d", size, size, messages(size), b.depth)
	var outs [2]string
	var errs [2]error
	var ranks sync.WaitGroup
	for i, machine := range []int{sender, peer} {
		ranks.Go(func() {
			// The retry count is perftest's own: an emulated machine may be held up for
			// longer than fewer retries take.
			outs[i], errs[i] = b.in(ctx, machine, b.command, "connect", "--index", strconv.Itoa(i), "--list", list,
				"--device", device, "--retry-cnt", "7", "--output", "json", "-c", line)
		})
	}
	ranks.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return 0, 0, err
	}
	return ringcliFigures(outs[0], size)
}

// ringcliFigures reads what rank 0 has printed.
func ringcliFigures(out string, size uint64) (bw, latency float64, err error) {
	for text := range strings.Lines(out) {
		var got struct {
			OK    bool    `json:"ok"`
			Op    string  `json:"op"`
			Bytes uint64  `json:"bytes"`
			BW    float64 `json:"bw_GBps"`
			Wrong *uint64 `json:"wrong"`
			Time  struct {
				P50 float64 `json:"p50"`
			} `json:"time_us"`
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			return 0, 0, fmt.Errorf("ringcli: %w: %q", err, text)
		}
		if got.Op == "WRITE" && got.Bytes == size && got.OK && got.Wrong != nil && got.BW > 0 && got.Time.P50 > 0 {
			return got.BW * 1e3, got.Time.P50, nil
		}
	}
	return 0, 0, fmt.Errorf("ringcli: no WRITE of %d bytes in what it printed:\n%s", size, out)
}
