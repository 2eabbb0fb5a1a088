package locality

import (
	"log/slog"
	"net/netip"
	"slices"

	"ringcli/configs/usage"
	"ringcli/trace"
	"ringcli/verbs"
	"ringcli/verbs/cpu"
)

// Affinity chooses the CPU of one of the ranks of this host, of those that CPUs gives. Ranks
// that share a process have no threads of their own, and one that has the host for itself
// shares no memory with another: nil.
func Affinity(wait verbs.WaitPolicy, setting string, addrs []netip.AddrPort, own int) (*cpu.Affinity, error) {
	cpus, err := CPUs(setting)
	if wait != verbs.WaitYield || len(cpus) == 0 {
		return nil, err
	}
	index, here := 0, 0
	for rank, a := range addrs {
		if !IsLocal(a.Addr()) {
			continue
		}
		if rank < own {
			index++
		}
		here++
	}
	if setting == cpusAuto && (here < 2 || len(cpus) < 2) {
		return nil, nil
	}
	affinity := cpu.NewAffinity(cpus, index, here)
	if affinity != nil {
		trace.Debug(trace.Ring, "CPU affinity", slog.Int("cpu", affinity.CPU()), slog.Int("ranks_here", here))
	}
	return affinity, nil
}

// What the setting cpus may be beside a list.
const cpusAuto, cpusNone = "auto", "none"

// CPUs lists those that ranks of this host take, in turn, by the setting cpus.
func CPUs(setting string) ([]int, error) {
	switch setting {
	case cpusNone:
		return nil, nil
	case cpusAuto:
		cpus, err := cpu.Near()
		if err != nil {
			trace.Debug(trace.Ring, "no CPU affinity", slog.Any("error", err))
		}
		return cpus, nil
	}
	cpus, err := cpu.ParseList(setting)
	if err != nil {
		return nil, usage.Errorf("cpus is %q: %v, auto or none", setting, err)
	}
	allowed, err := cpu.Allowed()
	if err != nil {
		return nil, err
	}
	for _, c := range cpus {
		if !slices.Contains(allowed, c) {
			return nil, usage.Errorf("cpus is %q: this process may not run on CPU %d, expected some of %s, auto or none", setting, c, cpu.FormatList(allowed))
		}
	}
	return cpus, nil
}
