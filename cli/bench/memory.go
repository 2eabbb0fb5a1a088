package bench

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/session"
	"ringcli/collective"
	"ringcli/collective/backend"
	gpus "ringcli/collective/gpu"
	"ringcli/collective/journal"
	"ringcli/verbs/gpu"
)

// OnMemory says in whose memory the vectors are, if not the host's, and how they travel.
type OnMemory struct {
	Memory  string    `json:"memory,omitempty"`   // such as cuda:0
	Path    gpus.Path `json:"path,omitempty"`     // of memory that is a GPU's
	PathWhy string    `json:"path_why,omitempty"` // not by IPC
}

// pathWords are what paths are to people. A vendor's back end tells none.
var pathWords = map[gpus.Path]string{
	"":          "as the back end's library moves it",
	gpus.IPC:    "kernels read the peers' memory by its IPC handles",
	gpus.Staged: "staged through pinned memory of the host",
}

// memoryNotes say so below a table; none of the host's memory.
func (m OnMemory) memoryNotes() []string {
	if m.Memory == "" {
		return nil
	}
	text := m.Memory + ": " + pathWords[m.Path]
	if m.PathWhy == "" {
		return []string{text}
	}
	return []string{text + ":", "  " + m.PathWhy}
}

// memoryFlag is --memory.
func memoryFlag(fs *pflag.FlagSet) {
	fs.Var(&command.Parsed[gpu.Place]{Value: new(gpu.Place), Kind: "place", Completions: []string{"host", "cuda:0", "hip:0"}, Parse: gpu.ParsePlace},
		"memory", "whose memory the vectors are in: host, or a GPU's, as cuda:0 or hip:0")
}

// checkPlace refuses a GPU that is not here, before anything is connected.
func checkPlace(name string, place gpu.Place) error {
	if place.Kind == gpu.Host {
		return nil
	}
	if _, err := gpu.Open(place); err != nil {
		return exit.Usagef("%s: --memory %s: %w", name, place, err)
	}
	return nil
}

// onDevice makes the buffers' like in the memory of the device that was asked for, if one was.
func (v *vectors) onDevice(ctx context.Context, m *session.Member, o operation) error {
	if o.place.Kind == gpu.Host {
		return nil
	}
	team, err := m.Team(ctx, o.place, o.placedBy)
	if err == nil {
		v.device, err = team.Vectors(ctx, m.Comm, v.send, v.recv)
	}
	if lack, ok := errors.AsType[*gpus.LackError](err); ok { // the same on all ranks
		code := exit.Critical
		if lack.Lacks {
			code = exit.Usage
		}
		return exit.Sharedf(code, "%w", err)
	}
	return err
}

// runs is an operation on its buffers, as it runs.
type runs struct {
	asked, plan collective.Call
	OnMemory
	comm    *collective.Comm
	flying  []collective.Call // in flight at once; none: asked runs by itself
	backend backend.Backend   // of a vendor; nil of our ring
	timeout time.Duration     // of one of its calls
	on      *gpus.Prepared    // nil where the host's memory is the operation's
}

// on is the operation on its buffers. What cannot be run is refused on all ranks alike.
func (o operation) on(m *session.Member, v vectors) (r runs, err error) {
	call := o.call()
	call.Send, call.Recv = v.sendAddr, v.recvAddr
	r.asked, r.comm = call, m.Comm
	for i, b := range v.beside {
		if i == 0 {
			r.flying = append(r.flying, call)
		}
		k := call
		k.Send, k.Recv = b.sendAddr, b.recvAddr
		r.flying = append(r.flying, k)
	}
	if o.backend != "" {
		return o.vendorRuns(m, v, call)
	}
	if v.device == nil {
		r.plan, err = m.Comm.Plan(call)
	} else {
		var p gpus.Prepared
		p, err = v.device.Prepare(call)
		r.plan, r.on, r.OnMemory = p.Call, &p, OnMemory{o.place.String(), p.Path, p.Why}
	}
	if err != nil { // the same on all ranks: nothing has been begun
		return r, exit.Sharedf(exit.Usage, "%w", err)
	}
	return r, nil
}

// fly starts all that are in flight at once, and returns when all have ended.
func (r *runs) fly(ctx context.Context) (err error) {
	handles := make([]*collective.Handle, 0, len(r.flying))
	for _, k := range r.flying {
		h, failed := r.comm.Start(ctx, k)
		if failed != nil {
			err = failed
			break
		}
		handles = append(handles, h)
	}
	for _, h := range handles { // which end with the context
		<-h.Done()
		err = errors.Join(err, h.Err())
	}
	return err
}

func (r *runs) run(ctx context.Context) error {
	if r.backend != nil {
		ctx, cancel := context.WithTimeout(ctx, r.timeout)
		defer cancel()
		return r.backend.Run(ctx, r.asked)
	}
	if r.on != nil {
		return r.on.Run(ctx)
	}
	return r.comm.Run(ctx, r.asked)
}

// recorded runs it, and leaves the result where it can be looked at. Of what goes by devices there
// is no journal.
func (r *runs) recorded(ctx context.Context) (journal.Journal, error) {
	if r.backend != nil {
		ctx, cancel := context.WithTimeout(ctx, r.timeout)
		defer cancel()
		h, err := r.backend.Start(ctx, r.asked)
		if err == nil {
			err = h.Wait(ctx)
		}
		if err == nil {
			err = r.backend.Err()
		}
		if err != nil {
			return journal.Journal{}, err
		}
		return journal.Journal{}, r.on.FromDevice(ctx)
	}
	if r.on == nil {
		j, err := r.comm.RunRecorded(ctx, r.asked)
		if err != nil {
			return journal.Journal{}, err
		}
		return *j, nil
	}
	if err := r.on.Run(ctx); err != nil {
		return journal.Journal{}, err
	}
	return journal.Journal{}, r.on.FromDevice(ctx)
}
