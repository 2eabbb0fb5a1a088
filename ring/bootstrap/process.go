package bootstrap

import (
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
