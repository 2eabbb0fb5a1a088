package backend

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/verbs/gpu"
)

// ErrUnavailable is why a back end cannot be had on this machine: a library, a driver or a
// device is missing, which the error names.
var ErrUnavailable = errors.New("not available")

// unavailable makes an error that is ErrUnavailable, and of usage: a machine that has what
// is missing mends it.
func unavailable(format string, args ...any) error {
	return usage.Codedf(codes.NoDevice, "%w: %w", ErrUnavailable, fmt.Errorf(format, args...))
}

// The names of the back ends, and of the choice among those that are there.
const (
	Auto = "auto"
	Ring = "ring"
	NCCL = "nccl"
	RCCL = "rccl"
)

// Found is what a factory has found of its back end.
type Found struct {
	Path    string // of the library; "" of the ring, which has none
	Version string // of the library
	Reason  error  // why it is not available, an ErrUnavailable; nil if it is
}

// Factory makes back ends of a name.
type Factory struct {
	name     string
	library  string // what the dynamic linker finds it by; "" if it has none
	priority int
	memory   gpu.Kind // whose buffers it reaches
	find     func() Found
}

// Factories returns the factory of each back end, those of higher priority first. A library
// that is loaded by them finds the configuration in its environment.
func Factories(c *Configuration) ([]*Factory, error) {
	if c == nil {
		return nil, usage.Errorf("back ends: no configuration is given: expected one, such as the default")
	}
	vendor := func(soname string, kind gpu.Kind) func() Found {
		return sync.OnceValue(func() Found { return find(c, soname, kind) })
	}
	return []*Factory{
		{NCCL, "libnccl.so.2", 100, gpu.CUDA, vendor("libnccl.so.2", gpu.CUDA)},
		{RCCL, "librccl.so.1", 90, gpu.HIP, vendor("librccl.so.1", gpu.HIP)},
		{Ring, "", 10, gpu.Host, func() Found { return Found{} }},
	}, nil
}

// Name is how the back end is asked for.
func (f *Factory) Name() string { return f.name }

// Library is what the dynamic linker finds it by; "" if it needs none.
func (f *Factory) Library() string { return f.library }

// Priority says which of those that are available is taken where none is asked for: that of
// the highest.
func (f *Factory) Priority() int { return f.priority }

// Memory is the kind of memory that it reaches: host, cuda or hip.
func (f *Factory) Memory() string { return f.memory.String() }

// Kind is whose memory that is.
func (f *Factory) Kind() gpu.Kind { return f.memory }

// Find looks for the back end, the first time that it is asked.
func (f *Factory) Find() Found { return f.find() }

// Names are those of all back ends, by priority.
func Names() []string { return []string{NCCL, RCCL, Ring} }

// Pick returns the factory of a name, or for auto the one of the highest priority that is
// available. It does not ask whether the named one is.
func Pick(list []*Factory, name string) (*Factory, error) {
	i := slices.IndexFunc(list, func(f *Factory) bool {
		return f.name == name || name == Auto && f.Find().Reason == nil
	})
	if i < 0 {
		return nil, usage.Errorf("unknown back end %q: expected %s or %s", name, strings.Join(Names(), ", "), Auto)
	}
	return list[i], nil
}

// find loads a vendor's library and the runtime of its devices, and says what it found.
func find(c *Configuration, soname string, kind gpu.Kind) Found {
	if err := c.apply(); err != nil {
		return Found{Reason: unavailable("%s is not loaded: %w", soname, err)}
	}
	l, err := load(soname)
	if err != nil {
		return Found{Reason: unavailable("%w", err)}
	}
	version, err := l.version()
	if err != nil {
		return Found{Path: l.path, Reason: unavailable("%s: %w", l.path, err)}
	}
	f := Found{Path: l.path, Version: formatVersion(version)}
	if _, err := gpu.Load(kind); err != nil {
		f.Reason = unavailable("%w", err)
	}
	return f
}

// formatVersion writes NCCL_VERSION_CODE, which is 2708 for 2.7.8 and 22703 for 2.27.3 (nccl.h).
func formatVersion(code int) string {
	if code < 10000 {
		return fmt.Sprintf("%d.%d.%d", code/1000, code/100%10, code%100)
	}
	return fmt.Sprintf("%d.%d.%d", code/10000, code/100%100, code%100)
}
