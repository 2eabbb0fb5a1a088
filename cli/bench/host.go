package bench

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"ringcli/cli/session"
)

// host is where a rank measures.
type host struct {
	Name   string `json:"name"`
	CPU    string `json:"cpu"` // what the kernel calls it
	CPUs   int    `json:"cpus"`
	Kernel string `json:"kernel"`
}

func thisHost() host {
	h := host{CPU: "unknown CPU", CPUs: runtime.NumCPU()}
	h.Name, _ = os.Hostname() // what is not known is left out
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			h.CPU = strings.TrimSpace(value)
			break
		}
	}
	text, _ = os.ReadFile("/proc/sys/kernel/osrelease")
	h.Kernel = strings.TrimSpace(string(text))
	return h
}

func (h host) String() string {
	return fmt.Sprintf("%s: %s, %d CPUs, Linux %s", h.Name, h.CPU, h.CPUs, h.Kernel)
}

// hostsOf gathers the hosts of all ranks, each once.
func hostsOf(ctx context.Context, m *session.Member) (lines []environment, err error) {
	all, err := session.Share(ctx, m, thisHost())
	if err != nil {
		return nil, err
	}
	return hostLines(all), nil
}

func hostLines(all []host) (lines []environment) {
	ranks := map[host][]string{}
	for rank, h := range all {
		ranks[h] = append(ranks[h], strconv.Itoa(rank))
	}
	for _, h := range all {
		if list := ranks[h]; list != nil {
			lines = append(lines, environment{"host of rank " + strings.Join(list, ", "), h.String()})
			delete(ranks, h)
		}
	}
	return lines
}
