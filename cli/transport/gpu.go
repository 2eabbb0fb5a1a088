package transport

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/verbs/gpu"
	"ringcli/verbs/transport"
)

// memoryFlag is where an end has the memory that it measures with.
func memoryFlag(fs *pflag.FlagSet) {
	fs.Var(&command.Parsed[gpu.Place]{Value: &gpu.Place{}, Kind: "memory", Parse: gpu.ParsePlace, Text: gpu.Place.String, Completions: []string{"host", "cuda:0", "hip:0"}},
		"memory", "memory of this end: host, or a GPU's, cuda:N or hip:N")
}

// gpuOf is the GPU that --memory names, nil of the host.
func gpuOf(word string, flags *pflag.FlagSet) (*gpu.Device, error) {
	place := command.Value[gpu.Place](flags, "memory")
	if place.Kind == gpu.Host {
		return nil, nil
	}
	d, err := gpu.Open(place)
	if err != nil {
		return nil, exit.Usagef("transport %s --memory %s: %w", word, place, err)
	}
	return d, nil
}

// alloc allocates memory of a GPU, each of whose copies has a limit, or without one of the host,
// and touches it. If the context ends meanwhile, the memory is freed.
func alloc(ctx context.Context, t *transport.Transport, d *gpu.Device, length uint64, limit time.Duration) (m *transport.Memory, err error) {
	if d == nil {
		m, err = t.Alloc(length)
	} else if m, err = t.AllocOn(d, length); err == nil {
		m.Region().Limit = limit
	}
	if err != nil {
		return nil, err
	}
	if err := touch(ctx, m.Bytes()); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// What follows does nothing with memory of the host.

// upload takes the first bytes of Bytes to the GPU.
func upload(ctx context.Context, m *transport.Memory, n uint64) error {
	if r := m.Region(); r != nil {
		return r.Store(ctx, 0, int(n))
	}
	return nil
}

// download fetches them; what was in Bytes is gone before.
func download(ctx context.Context, m *transport.Memory, n uint64) error {
	if r := m.Region(); r != nil {
		clear(r.Bytes()[:n])
		return r.Load(ctx, 0, int(n))
	}
	return nil
}

// leaving makes the GPU's bytes those that a transfer takes, arrived those that came the GPU's.

func leaving(ctx context.Context, m *transport.Memory, n uint64) error {
	if r := m.Region(); r != nil {
		return r.Leaving(ctx, 0, int(n))
	}
	return nil
}

func arrived(ctx context.Context, m *transport.Memory, n uint64) error {
	if r := m.Region(); r != nil {
		return r.Arrived(ctx, 0, int(n))
	}
	return nil
}

// through has what came be what the GPU has, and what a peer finds be what the GPU has then.
func through(ctx context.Context, m *transport.Memory, n uint64) error {
	if m.Region() == nil {
		return nil
	}
	for _, step := range []func(context.Context, *transport.Memory, uint64) error{arrived, download, leaving} {
		if err := step(ctx, m, n); err != nil {
			return err
		}
	}
	return nil
}
