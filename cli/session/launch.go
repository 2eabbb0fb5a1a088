package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"time"

	"ringcli/cli/exit"
	"ringcli/configs"
	"ringcli/configs/codes"
	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/bootstrap/launch"
	"ringcli/ring/diagnose"
	"ringcli/trace"
)

// LaunchSettings say who is in the ring.
var LaunchSettings = []string{"list", "index", "world-size", "launcher", "master-addr", "master-port", "advertise"}

// Launch makes list and index of what a launcher knows, where there is no list: the ranks
// tell each other by it where they listen. Without a launcher, --world-size 1 makes this process
// rank 0 of 1, if alone allows it. It tells whether there are a list and an index now.
func (s *Session) Launch(ctx context.Context, alone bool) (ok bool, err error) {
	if s.Config.String("list") != "" {
		if s.Config.Get("index").Origin.IsForeign() {
			return true, s.share()
		}
		return true, nil
	}
	if err := s.Config.CheckForeign("index", "world-size", "master-addr", "master-port"); err != nil {
		return false, err
	}
	o := launch.Options{Kind: s.Config.String("launcher")}
	if o.Kind, err = s.identify(o.Kind); err != nil {
		return false, err
	}
	c := s.Config
	o.Rank, o.Size, o.MasterAddr, o.MasterPort = c.Int("index"), c.Int("world-size"), c.String("master-addr"), c.Int("master-port")
	kind := o.Detect()
	if err := unsaid(c, kind, o); err != nil {
		return false, err
	}
	switch index, size := c.Get("index"), c.Get("world-size"); {
	case kind != "":
	case launch.Unranked() != "" && !isOwn(index) && !isOwn(size):
		return false, exit.Usagef("no server list: %s; `ringcli help launchers`", launch.Unranked())
	case o.Size > 1:
		return false, exit.Usagef("there are %d ranks (world-size from %s), and nothing says where: expected --list, or --master-addr and --master-port (MASTER_ADDR, MASTER_PORT), or to be started by mpirun or srun; `ringcli help launchers`", o.Size, size.Origin)
	case c.IsSet("index") && !c.IsSet("world-size") && index.Origin.Name != "index":
		return false, exit.Usagef("rank %d (index from %s), and neither a list nor world-size says how many there are: expected --list, or WORLD_SIZE, MASTER_ADDR and MASTER_PORT; `ringcli help launchers`", o.Rank, index.Origin)
	case c.IsSet("index") && !c.IsSet("world-size"):
		return false, nil
	case !alone:
		return false, nil
	case !isOwn(size):
		return false, exit.Usagef("no server list, and no launcher has started this process: expected --list A,B,... and --index I, or to be started by mpirun, srun or torchrun, or --world-size 1 for a ring of one rank; `ringcli help launchers`")
	}
	port, release, err := launch.Reserve(c.Int("tcp-port"))
	if err != nil {
		return false, err
	}
	defer func() {
		if err != nil {
			release()
		}
	}() // else it is held to the end, for the next ring, too
	list, own := "127.0.0.1:"+strconv.Itoa(port), 0
	if kind != "" {
		if err = s.share(); err != nil {
			return false, err
		}
		if o.Token, _, err = s.Secrets.Token(s.Config); err != nil {
			return false, err
		}
		r, err := s.gather(ctx, kind, o, port)
		if err == nil {
			err = s.Launcher.named(r, c.Int("tcp-port"))
		}
		if err != nil {
			return false, err
		}
		list, own = r.List, r.Own
	}
	for name, value := range map[string]string{"list": list, "index": strconv.Itoa(own)} {
		if s.Config, err = s.Config.With(name, value); err != nil {
			return false, err
		}
	}
	if s.Launcher.Started {
		nodes, _ := hosts.Parse(list, c.Int("tcp-port")) // joining reports it
		most := 0
		for i := range nodes {
			most = max(most, ranksOn(nodes, i))
		}
		err = s.Ledger.CheckApart(most)
	}
	return err == nil, err
}

// share is for a rank that a launcher has started: its streams are those of the other ranks.
func (s *Session) share() error {
	s.Launcher.Started = true // by one command line for all
	trace.ShareStreams()
	s.Out, s.Progress = s.Printer(), NewProgress(s.Stderr)
	return s.SetTrace()
}

// isOwn tells whether the user has given a value to ringcli.
func isOwn(v configs.Value) bool {
	return v.Origin.Source != configs.FromDefault && !v.Origin.IsForeign()
}

// identify finds out which launcher's variables count, if the index comes from one, and returns
// the kind of launcher.
func (s *Session) identify(kind string) (string, error) {
	if !s.Config.Get("index").Origin.IsForeign() {
		return kind, nil
	}
	id, ok, err := launch.Nearest()
	if err != nil || !ok {
		return kind, err
	}
	if s.Config, err = s.Config.WithForeign("index", strconv.Itoa(id.Rank), id.RankVar); err != nil {
		return kind, err
	}
	if size := s.Config.Get("world-size"); id.Size > 0 && (size.Origin.IsForeign() || !s.Config.IsSet("world-size")) {
		if s.Config, err = s.Config.WithForeign("world-size", strconv.Itoa(id.Size), id.SizeVar); err != nil {
			return kind, err
		}
	}
	// A MASTER_ADDR of the outer launcher does not count either.
	if master := s.Config.Get("master-addr").Origin; kind == launch.Auto && id.Proven && id.Kind != "" && (master.IsForeign() || master.Source == configs.FromDefault) {
		kind = id.Kind
	}
	return kind, nil
}

// unsaid refuses what says half of who a rank is, where ranks meet that nobody has counted:
// each would be a ring of its own, or all of them rank 0.
func unsaid(c *configs.Config, kind string, o launch.Options) error {
	index, size := c.Get("index"), c.Get("world-size")
	switch meet := kind == launch.Master || kind == launch.Slurm || kind == launch.HostFile; {
	case o.Rank < 0 && index.Origin.Source == configs.FromEnv:
		return exit.Usagef("index is %d (from %s): expected 0 or more, or that the variable is not set", o.Rank, index.Origin)
	case meet && o.Rank >= 0 && !c.IsSet("world-size"):
		return exit.Usagef("rank %d (index from %s), and nothing says how many there are: expected WORLD_SIZE or --world-size, the same on all ranks; `ringcli help launchers`", o.Rank, index.Origin)
	case meet && o.Rank < 0 && c.IsSet("world-size"):
		return exit.Usagef("there are %d ranks (world-size from %s), and nothing says which of them this is: expected RANK or --index, another on each; `ringcli help launchers`", o.Size, size.Origin)
	}
	return nil
}

func (s *Session) gather(ctx context.Context, kind string, o launch.Options, port int) (r *launch.Ring, err error) {
	limit := s.Config.Duration("timeout")
	self := launch.Self{Rank: o.Rank, From: s.Config.Get("index").Origin.String(), Port: port}
	if advertise := s.Config.String("advertise"); advertise != "auto" {
		if self.Advertise, err = launch.Advertised(advertise); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("nothing came within %s (--timeout)", limit))
	defer cancel()
	defer s.Progress.Clock("asking the launcher (%s) for the other ranks, at most %s", kind, limit)()
	l, err := launch.Open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("launcher %s: %w", kind, err)
	}
	if size := s.Config.Get("world-size"); s.Config.IsSet("world-size") && l.Size() != o.Size {
		return nil, errors.Join(exit.Usagef("launcher %s has started %d ranks, and world-size is %d (from %s): expected the same, or none", kind, l.Size(), o.Size, size.Origin), l.Close())
	}
	r, err = launch.Gather(ctx, l, self)
	if err = errors.Join(err, l.Close()); err != nil {
		return nil, fmt.Errorf("launcher %s: %w", kind, err)
	}
	trace.Info(trace.Bootstrap, "launched", slog.String("launcher", kind), slog.Int("rank", r.Own), slog.Int("ranks", l.Size()), slog.String("list", r.List))
	return r, nil
}

// Launcher is what this process knows of the launcher that has started it.
type Launcher struct {
	// Started says that a launcher has started the ranks.
	Started  bool
	names    map[hosts.Node]string // of the hosts of its ring, whose list has addresses
	networks []netip.Prefix        // that these have in common besides the ring's
	over     context.Context       // of Over; nil if Patient was not asked
}

// named remembers what the hosts of a launcher's ring are called.
func (l *Launcher) named(r *launch.Ring, tcpPort int) error {
	nodes, err := hosts.Parse(r.List, tcpPort)
	if err != nil {
		return err
	}
	l.networks, l.names = r.Others, map[hosts.Node]string{}
	for rank, node := range nodes {
		l.names[node] = r.Names[rank]
	}
	return nil
}

// apart adds to the error of a ring whose ranks do not reach each other which other network a
// launcher's ranks have in common.
func (l *Launcher) apart(err error) error {
	code := diagnose.FailureCode(err)
	if len(l.networks) == 0 || code != codes.Unreachable && code != codes.Absent {
		return err
	}
	return fmt.Errorf("%w; all hosts have an address in %s, too: --advertise %s would take that network", err, l.networks[0], l.networks[0])
}

// HostsOf are the nodes' hosts: by their names, where a launcher has started the ranks, else as
// the list has them.
func (l *Launcher) HostsOf(nodes []hosts.Node) (list []string) {
	for _, n := range nodes {
		list = append(list, cmp.Or(l.names[n], n.Host))
	}
	return list
}

// patience is how long after a signal a rank that a launcher has started goes on: where one
// has died, the launcher ends the others, by SIGTERM and (Open MPI) a second later by SIGKILL,
// and the ring needs a moment to say who it was. A rank that has a keeper is killed by nobody.
// In the last part of it others may be gone for the same signal, who are nobody's culprits.
func patience() (all, last time.Duration) {
	if launch.IsKept() {
		return 2 * time.Second, time.Second
	}
	return 900 * time.Millisecond, 200 * time.Millisecond
}

// Patient is ctx, whose end comes that much later if a launcher has started this process.
func (l *Launcher) Patient(ctx context.Context) context.Context {
	if !l.Started {
		return ctx
	}
	after := func(d time.Duration) context.Context {
		late, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		context.AfterFunc(ctx, func() { time.AfterFunc(d, func() { cancel(context.Cause(ctx)) }) })
		return late
	}
	all, last := patience()
	l.over = after(all - last)
	return after(all)
}

// Over is what a command's context was in the end: what has failed once it is done is the
// interruption's doing.
func (l *Launcher) Over(ctx context.Context) context.Context {
	if l.over != nil {
		return l.over
	}
	return ctx
}
