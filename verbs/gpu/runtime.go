package gpu

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"ringcli/verbs/memory"
)

// Runtime is a vendor's runtime: its library, and the devices that it shows this process.
type Runtime struct {
	kind    Kind
	library *library
	file    string // the library's
	version int
	calls   [calls]uintptr
	devices []*Device

	mu     sync.Mutex
	frames []*memory.Block // guarded by mu: those that no call uses
}

// sonames are the libraries' names for the dynamic linker, the newest first: ROCm counts them with
// its major versions, and puts them where the linker may not look.
var sonames = map[Kind][]string{
	CUDA: {"libcuda.so.1"},
	HIP: {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so",
		"/opt/rocm/lib/libamdhip64.so"},
}

// install says where a library comes from.
var install = map[Kind]string{
	CUDA: "NVIDIA's driver brings it (Debian: libcuda1 of non-free; Ubuntu: libnvidia-compute; in a container: --gpus all, with NVIDIA's container toolkit)",
	HIP:  "ROCm brings it (Debian, Ubuntu: libamdhip64-5, or AMD's rocm-hip-runtime)",
}

var errStatic = errors.New("this program was built static (tag nodl), without libraries: it takes the build that `make` makes")

var loaded [len(words)]struct {
	once  sync.Once
	r     *Runtime
	err   error
	ready atomic.Pointer[Runtime] // r, for those who do not load it
}

// Load returns the runtime of a kind, which it loads and starts once in a process. It has at
// least one device; else the error is ErrUnavailable.
func Load(kind Kind) (*Runtime, error) {
	l := &loaded[kind]
	l.once.Do(func() {
		defer keepHandlers(kind.String())()
		l.r, l.err = open(kind)
		l.ready.Store(l.r)
	})
	return l.r, l.err
}

// unavailable is ErrUnavailable, with its reason.
func unavailable(kind Kind, format string, args ...any) error {
	return fmt.Errorf("%s is %w: %w", kind, ErrUnavailable, fmt.Errorf(format, args...))
}

func open(kind Kind) (*Runtime, error) {
	if kind == Host {
		return nil, unavailable(kind, "the host has no runtime")
	}
	r := &Runtime{kind: kind}
	var first error
	for _, name := range sonames[kind] {
		l, err := openLibrary(name)
		if err == nil {
			r.library, r.file = l, name
			break
		}
		if first == nil {
			first = err
		}
	}
	if r.library == nil {
		if errors.Is(first, errStatic) {
			return nil, unavailable(kind, "%w", first)
		}
		return nil, unavailable(kind, "%s cannot be loaded (%s): %s%s", sonames[kind][0], oneLine(first), install[kind], driver(kind))
	}
	for c := range calls {
		name := kind.name(c)
		if name == "" {
			continue
		}
		if r.calls[c] = r.library.find(name); r.calls[c] == 0 && !names[c].optional {
			return nil, unavailable(kind, "%s has no %s: expected a later one, as %s", r.file, name, install[kind])
		}
	}
	if err := r.do(callInit, 0); err != nil {
		return nil, unavailable(kind, "%w%s", err, driver(kind))
	}
	f := r.frame()
	defer r.release(f)
	if r.do(callVersion, f.at(0)) == nil {
		r.version = int(f.int32s(0, 1)[0])
	}
	if err := r.do(callCount, f.at(0)); err != nil {
		return nil, unavailable(kind, "%w%s", err, driver(kind))
	}
	n := int(f.int32s(0, 1)[0])
	if n == 0 {
		return nil, unavailable(kind, "%s shows this process no device%s%s", r.file, hidden(kind), driver(kind))
	}
	for i := range n {
		d, err := r.device(i)
		if err != nil {
			return nil, unavailable(kind, "device %d: %w", i, err)
		}
		r.devices = append(r.devices, d)
	}
	return r, nil
}

// driver is what the kernel lacks for a runtime, after "; ", or "".
func driver(kind Kind) string {
	module, file, remedy := "nvidia", "/dev/nvidiactl", "nvidia-modprobe makes it; a container takes --gpus all"
	if kind == HIP {
		module, file, remedy = "amdgpu", "/dev/kfd", "a container takes --device /dev/kfd --device /dev/dri, a user the group render"
	}
	if _, err := os.Stat("/sys/module/" + module); err != nil {
		return fmt.Sprintf("; the kernel has no module %s: there is no such GPU, or its driver is not loaded (modprobe %s)", module, module)
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return fmt.Sprintf("; %v: %s", err, remedy)
	}
	_ = f.Close()
	return ""
}

// hidden names the variables that hide devices from a process.
func hidden(kind Kind) string {
	variables := []string{"CUDA_VISIBLE_DEVICES"}
	if kind == HIP {
		variables = []string{"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}
	}
	for _, v := range variables {
		if value, ok := os.LookupEnv(v); ok {
			return fmt.Sprintf(" (%s=%s)", v, value)
		}
	}
	return ""
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// File and Version are of the library; CUDA's version is 1000 times the major and ten times
// the minor one, HIP's has a version of its own after those.

func (r *Runtime) File() string { return r.file }
func (r *Runtime) Version() string {
	if r.kind == CUDA {
		return fmt.Sprintf("%d.%d", r.version/1000, r.version%1000/10)
	}
	return fmt.Sprintf("%d.%d.%d", r.version/10000000, r.version/100000%100, r.version%100000)
}

// Devices are those that the process can use, by their index.
func (r *Runtime) Devices() []*Device { return r.devices }

// Open returns the device of a place.
func Open(p Place) (*Device, error) {
	r, err := Load(p.Kind)
	if err != nil {
		return nil, err
	}
	if p.Index >= len(r.devices) {
		return nil, unavailable(p.Kind, "device %d of %d: expected 0 to %d%s", p.Index, len(r.devices), len(r.devices)-1, hidden(p.Kind))
	}
	return r.devices[p.Index], nil
}

// do calls a function that returns a code, and makes an error of any but 0.
func (r *Runtime) do(c call, args ...uintptr) error {
	if r.calls[c] == 0 {
		return &Error{Call: r.kind.name(c), Code: codeInvalid, Name: "absent", Text: fmt.Sprintf("%s of version %s has no such function", r.file, r.Version())}
	}
	if code := int32(invoke(r.calls[c], args...)); code != 0 {
		return r.failed(r.kind.name(c), int(code))
	}
	return nil
}

func (r *Runtime) failed(what string, code int) error {
	return &Error{Call: what, Code: code, Name: r.text(callErrorName, code), Text: r.text(callErrorString, code)}
}

// text is what the runtime calls a code: CUDA writes its address, HIP returns it.
func (r *Runtime) text(c call, code int) string {
	var at uintptr
	if r.kind == HIP {
		at = invoke(r.calls[c], uintptr(code))
	} else {
		f := r.frame()
		defer r.release(f)
		if int32(invoke(r.calls[c], uintptr(code), f.at(0))) == 0 {
			at = uintptr(f.words(0, 1)[0])
		}
	}
	if at == 0 {
		return "unknown"
	}
	return cString(uint64(at))
}

// cString is a string of C.
func cString(at uint64) string {
	n := 0
	for memory.Bytes(at+uint64(n), 1)[0] != 0 {
		n++
	}
	return string(memory.Bytes(at, n))
}

// frame is memory for what one call of C reads and writes besides its arguments.
type frame struct{ *memory.Block }

// frameSize is a page: 64 bytes of results, a handle or a name, the arguments of a kernel.
const frameSize = 4096

func (f frame) at(offset int) uintptr { return uintptr(f.Addr()) + uintptr(offset) }

// words and int32s view n of them at an offset in bytes.

func (f frame) words(offset, n int) []uint64 { return memory.Slice[uint64](uint64(f.at(offset)), n) }
func (f frame) int32s(offset, n int) []int32 { return memory.Slice[int32](uint64(f.at(offset)), n) }

// frame takes one, zeroed at its start; release gives it back.
func (r *Runtime) frame() frame {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.frames); n > 0 {
		f := frame{r.frames[n-1]}
		r.frames = r.frames[:n-1]
		clear(f.words(0, 8))
		return f
	}
	b, err := memory.Alloc(frameSize)
	if err != nil {
		panic(err) // a page: as when Go's heap has no more
	}
	return frame{b}
}

func (r *Runtime) release(f frame) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frames = append(r.frames, f.Block)
}
