//go:build !nodl

package gpu

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/verbs/gpu/gputest"
)

// inChild says that a test runs in a process of its own, with the libraries of gputest.
const inChild = "RINGTEST_GPU_CHILD"

// eachKind runs the calling test once more for each runtime, in a process of its own that finds the
// libraries of gputest and has these variables; there it returns true and the kind.
func eachKind(t *testing.T, variables ...string) (kind Kind, child bool) {
	t.Helper()
	if of := os.Getenv(inChild); of != "" {
		p, err := ParsePlace(of)
		if err != nil {
			t.Fatal(err)
		}
		return p.Kind, true
	}
	dir := gputest.Build(t)
	for _, kind := range Kinds {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.v")
		cmd.Env = append(os.Environ(), append(variables, inChild+"="+kind.String(), "LD_LIBRARY_PATH="+dir)...)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
			t.Errorf("%s: %v\n%s", kind, err, out)
		}
	}
	return 0, false
}

func TestDevicesAreTold(t *testing.T) {
	kind, child := eachKind(t, "RINGTEST_GPUS=3", "RINGTEST_GPU_FAST=1")
	if !child {
		return
	}
	r, err := Load(kind)
	if err != nil {
		t.Fatal(err)
	}
	all := r.Devices()
	if len(all) != 3 || !strings.HasPrefix(r.File(), "lib") {
		t.Fatalf("%d devices by %s", len(all), r.File())
	}
	version, arch, fast := "12.4", "sm_90", "nvlink"
	if kind == HIP {
		version, arch, fast = "6.2.41133", "", "xgmi"
	}
	d := all[2]
	if r.Version() != version || d.Arch != arch || d.Name != "Test GPU 2" || d.Memory != 8<<30 || d.PCI != "0000:5a:00.0" ||
		d.UUID != "20212223-2425-2627-2829-2a2b2c2d2e2f" || d.Place != (Place{kind, 2}) {
		t.Errorf("version %s of %+v", r.Version(), d)
	}
	if l, err := d.Link(all[0]); err != nil || l != (Link{true, fast}) {
		t.Errorf("%+v, %v joins the third and the first: expected %s", l, err, fast)
	}
	if _, err := Open(Place{kind, 3}); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "device 3 of 3: expected 0 to 2") {
		t.Errorf("the fourth device: %v", err)
	}
}

func TestNoRuntime(t *testing.T) {
	if os.Getenv(inChild) != "" {
		kind, _ := eachKind(t)
		_, err := Load(kind)
		want := map[Kind]string{CUDA: "libcuda.so.1 has no cuInit", HIP: "libamdhip64.so.7 has no hipInit"}[kind]
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: expected %q", err, want)
		}
		return
	}
	// A library of that name that is another's.
	dir := gputest.Build(t)
	for kind, name := range map[string]string{"cuda": "libcuda.so.1", "hip": "libamdhip64.so.7"} {
		if err := os.Rename(dir+"/libhiprtc.so.7", dir+"/"+name); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
		cmd.Env = append(os.Environ(), inChild+"="+kind, "LD_LIBRARY_PATH="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", kind, err, out)
		}
		if err := os.Rename(dir+"/"+name, dir+"/libhiprtc.so.7"); err != nil {
			t.Fatal(err)
		}
	}
}

// A compiler that is there and will not do is told, with what it lacks.
func TestCompilerLacksFunctions(t *testing.T) {
	if os.Getenv(inChild) != "" {
		kind, _ := eachKind(t)
		_, err := opened(t, kind).Compile("x.hip", "")
		if want := "libhiprtc.so.7 has no hiprtcCreateProgram"; !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: expected %q", err, want)
		}
		return
	}
	dir := gputest.Build(t)
	if err := os.Rename(dir+"/libcuda.so.1", dir+"/libhiprtc.so.7"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), inChild+"=hip", "LD_LIBRARY_PATH="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// What a compiler says of code that it refuses is told: hiprtc's log, and that of the driver for PTX.
func TestRefusedCode(t *testing.T) {
	kind, child := eachKind(t)
	if !child {
		return
	}
	d := opened(t, kind)
	_, err := d.Module([]byte("no code"))
	want := "load code on cuda:0 (sm_90): cuModuleLoadDataEx: unknown (200): unknown: line 1: no .version"
	if kind == HIP {
		_, err = d.Compile("x.hip", "#error")
		want = "compile x.hip for hip:0 (): hiprtcCompileProgram: HIPRTC_ERROR_COMPILATION: error: #error in the source"
	}
	if err == nil || !strings.HasPrefix(err.Error(), want) || strings.ContainsAny(err.Error(), "\x00\n") {
		t.Errorf("%q: expected %q", err, want)
	}
}

func TestRefusedStart(t *testing.T) {
	kind, child := eachKind(t, "RINGTEST_GPUS=0")
	if !child {
		return
	}
	_, err := Load(kind)
	want := map[Kind]string{CUDA: "cuInit: CUDA_ERROR_NO_DEVICE (100)", HIP: "hipInit: hipErrorNoDevice (100)"}[kind]
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v: expected %q", err, want)
	}
	if _, again := Load(kind); !errors.Is(again, err) {
		t.Errorf("the second time: %v", again)
	}
}

// What a runtime's start, and a context's, install as handlers of signals ends the process: SIGINT
// and SIGTERM are still Go's, and a fault of Go's is still a panic.
func TestHandlersAreKept(t *testing.T) {
	kind, child := eachKind(t, "RINGTEST_GPU_SIGNALS=1")
	if !child {
		return
	}
	caught := make(chan os.Signal, 2)
	signal.Notify(caught, unix.SIGINT, unix.SIGTERM)
	defer signal.Stop(caught)
	if _, err := Load(kind); err != nil {
		t.Fatal(err)
	}
	var uses sync.WaitGroup
	for _, d := range loaded[kind].r.Devices() { // their first uses overlap, and make contexts
		uses.Go(func() {
			if m, err := d.Alloc(1); err != nil {
				t.Error(err)
			} else if err := m.Free(); err != nil {
				t.Error(err)
			}
		})
	}
	uses.Wait()
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGTERM} {
		if err := unix.Kill(os.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-caught:
			if got != os.Signal(sig) {
				t.Errorf("%v came: expected %v", got, sig)
			}
		case <-time.After(time.Minute):
			t.Errorf("%v did not come", sig)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a nil pointer was followed, and there was no panic")
		}
	}()
	var nothing *Device
	t.Log(nothing.Name)
}
