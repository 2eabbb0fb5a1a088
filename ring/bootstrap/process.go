package bootstrap

import (
	"context"
	"net"
	"net/netip"
	"time"

	"ringcli/ring/bootstrap/kernel"
	"ringcli/ring/bootstrap/verdict"
)

// near tells whether two processes see each other in /proc.
func (i identity) near(other *identity) bool {
	return i.Process != nil && other.Process != nil && i.Process.Machine == other.Process.Machine
}

// beside tells whether no network lies between two processes: one that does not hear the
// other is not cut off.
func (i identity) beside(other *identity) bool {
	return i.near(other) && i.PID != other.PID && i.Process.Network == other.Process.Network
}

// look tells how another rank's process is, if it is on this machine. cpu is the time that
// it had used at the last look, and is set to what it has used now.
func (i identity) look(own *identity, cpu *uint64) verdict.Process {
	if !i.near(own) || i.PID == own.PID {
		return ""
	}
	s, ok := kernel.Read(i.PID)
	if !ok {
		return "" // it is gone, or hidden: a call tells
	}
	before := *cpu
	*cpu = s.CPU
	switch {
	case s.Start != i.Process.Start || s.State == 'Z' || s.State == 'X':
		return verdict.ProcessDead
	case s.State == 'T' || s.State == 't':
		return verdict.ProcessStopped
	case before != 0 && s.CPU > before, kernel.Runnable(i.PID):
		return verdict.ProcessRunning
	}
	return ""
}

// Vigil looks whether a rank's process lives on after its ring.
type Vigil struct {
	own, who identity
	at       netip.AddrPort
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	since    time.Time // nobody has answered at its address since then
}

// vigil begins one over rank 0. It needs the lock.
func (c *Control) vigil() *Vigil {
	return &Vigil{own: c.self, who: c.members[0], at: c.cfg.Addrs[0], dial: c.cfg.Dial}
}

// absence is how long nobody may answer at the address of a process elsewhere: between two
// rings a person may think.
const absence = 30 * time.Second

// Ended tells whether the process has ended: its host says so, where that is this one; else
// nobody has answered at its address for half a minute. It takes at most a second.
func (v *Vigil) Ended(ctx context.Context) bool {
	if v.who.near(&v.own) {
		s, ok := kernel.Read(v.who.PID)
		return !ok || s.Start != v.who.Process.Start || s.State == 'Z' || s.State == 'X'
	}
	within, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	conn, err := v.dial(within, "tcp", v.at.String())
	switch {
	case err == nil:
		_ = conn.Close()
		v.since = time.Time{}
	case ctx.Err() != nil || unreached(within, err) == "": // nobody was called
		return false
	case v.since.IsZero():
		v.since = time.Now()
	}
	return !v.since.IsZero() && time.Since(v.since) > absence
}

// Process tells whether the process of a rank is stopped, gone, or lives, as the host that
// both are on shows it.
func (c *Control) Process(rank int) (stopped, gone, lives bool, pid int) {
	c.mu.Lock()
	other, own := c.members[rank], c.self
	c.mu.Unlock()
	var cpu uint64
	p := other.look(&own, &cpu)
	stopped, gone = p == verdict.ProcessStopped, p == verdict.ProcessDead
	return stopped, gone, cpu > 0 && !stopped && !gone, other.PID // no process gets this far without
}

// Beside tells whether a rank is a process of this host and no network lies between.
func (c *Control) Beside(rank int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[rank].beside(&c.self)
}
