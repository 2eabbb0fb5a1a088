package backend

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ringcli/collective/backend/nccltest"
	"ringcli/configs/usage"
	"ringcli/verbs/gpu/gputest"
)

// asProbe makes the test binary look for the back ends and print what it finds: a library
// is loaded once in a process, and so is the environment that it reads.
const asProbe = "RINGTEST_AS_PROBE"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(asProbe) != "":
		probe()
		return
	case os.Getenv(asRank) != "":
		os.Exit(beRank())
	}
	// They wait for deadlines more than they compute.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// probed is the configuration of a probe.
var probed = map[string]*Configuration{
	"default":  {UseRingAllReduce: true, TreeThresholdBytes: 1 << 20, NumChannels: 1, BufferSize: 4 << 20},
	"auto":     {NumChannels: 1, BufferSize: 4 << 20},
	"channels": {NumChannels: 4, BufferSize: 1 << 20, EnableDebug: true, UseTreeAllReduce: true},
	"both":     {NumChannels: 1, BufferSize: 1, UseTreeAllReduce: true, UseRingAllReduce: true, TreeThresholdBytes: 12345},
}

func probe() {
	if c := probed[os.Getenv(asProbe)]; c.EnableDebug {
		c.Log = prefixed{}
	}
	list, err := Factories(probed[os.Getenv(asProbe)])
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 { // the second time nothing is loaded
		for _, f := range list {
			found := f.Find()
			fmt.Printf("%s %d %s %s %s %v %v\n", f.Name(), f.Priority(), f.Memory(), filepath.Base(found.Path), found.Version, errors.Is(found.Reason, ErrUnavailable), found.Reason)
		}
	}
	f, err := Pick(list, Auto)
	fmt.Println("auto", f.Name(), err)
	if probed[os.Getenv(asProbe)].EnableDebug && os.Getenv("NCCL_DEBUG") == "" && list[0].Find().Path != "" {
		<-logged
	}
}

// prefixed prints what a library says, behind a word.
type prefixed struct{}

var logged = make(chan struct{}, 16)

func (prefixed) Write(p []byte) (int, error) {
	fmt.Printf("logged: %s", p)
	logged <- struct{}{}
	return len(p), nil
}

// look runs a probe with a library's folder and variables, and returns what it prints.
func look(t *testing.T, configuration, dir string, variables ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "NCCL_") && !strings.HasPrefix(v, "RCCL_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, asProbe+"="+configuration, "LD_LIBRARY_PATH="+dir)
	cmd.Env = append(cmd.Env, variables...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func TestFactoriesWithAndWithoutLibraries(t *testing.T) {
	t.Parallel()
	gpus := gputest.Build(t)
	for _, c := range []struct {
		libraries, variables, want, not []string
	}{
		{nil, nil, []string{"libnccl.so.2 cannot be loaded", "libnccl2", "librccl.so.1 cannot be loaded", "ROCm's package rccl", "nccl 100 cuda .  true", "rccl 90 hip .  true", "ring 10 host .  false <nil>", "auto ring <nil>"}, nil},
		{nccltest.Sonames[:1], nil, []string{"nccl 100 cuda libnccl.so.2 2.21.5 false", "librccl.so.1 cannot be loaded", "auto nccl"}, []string{"libnccl.so.2 cannot"}},
		{nccltest.Sonames[1:], []string{"NCCLTEST_VERSION=2708"}, []string{"rccl 90 hip librccl.so.1 2.7.8 false", "libnccl.so.2 cannot be loaded", "auto rccl"}, []string{"librccl.so.1 cannot"}},
		{nccltest.Sonames, nil, []string{"nccl 100 cuda libnccl.so.2 2.21.5 false", "rccl 90 hip librccl.so.1 2.21.5 false", "auto nccl"}, []string{"cannot"}},
		{nccltest.Sonames[:1], []string{"NCCLTEST_FAIL=ncclGetVersion:3"}, []string{"libnccl.so.2: ncclGetVersion failed with code 3", "auto ring"}, nil},
	} {
		got := look(t, "default", nccltest.Build(t, c.libraries...)+":"+gpus, c.variables...)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("with %v %v: expected %q in:\n%s", c.libraries, c.variables, want, got)
			}
		}
		for _, not := range c.not {
			if strings.Contains(got, not) {
				t.Errorf("with %v: %q in:\n%s", c.libraries, not, got)
			}
		}
	}
}

// A library without a device is not available, and says what is missing.
func TestALibraryWithoutADevice(t *testing.T) {
	t.Parallel()
	nccl := nccltest.Build(t, nccltest.Sonames...)
	for _, c := range []struct {
		dir, variable string
		want          []string
	}{
		{nccl, "", []string{"nccl 100 cuda libnccl.so.2 2.21.5 true", "libcuda.so.1 cannot be loaded", "libamdhip64.so.7 cannot be loaded", "auto ring"}},
		{nccl + ":" + gputest.Build(t), "RINGTEST_GPUS=0", []string{"rccl 90 hip librccl.so.1 2.21.5 true", "cuInit: CUDA_ERROR_NO_DEVICE (100)", "hipInit: hipErrorNoDevice (100)", "auto ring"}},
	} {
		got := look(t, "default", c.dir, c.variable)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: expected %q in:\n%s", c.variable, want, got)
			}
		}
	}
}

// What is no such library is said to be none.
func TestALibraryOfAnotherKind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "libnccl.so.2"), []byte("no ELF"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := look(t, "default", dir), "libnccl.so.2 cannot be loaded"; !strings.Contains(got, want) {
		t.Errorf("expected %q in:\n%s", want, got)
	}
}

// A library finds the configuration by the C library's getenv, but for what an operator
// has set.
func TestConfigurationReachesTheLibrary(t *testing.T) {
	t.Parallel()
	dir := nccltest.Build(t, nccltest.Sonames...)
	for _, c := range []struct {
		configuration   string
		variables, want []string
	}{
		{"default", nil, []string{"RCCL_DEBUG=WARN", "RCCL_BUFFSIZE=4194304", "NCCL_DEBUG=WARN", "NCCL_BUFFSIZE=4194304", "NCCL_ALGO=Ring"}},
		{"auto", nil, []string{"RCCL_DEBUG=WARN", "RCCL_BUFFSIZE=4194304", "NCCL_DEBUG=WARN", "NCCL_BUFFSIZE=4194304"}},
		{"channels", nil, []string{
			"RCCL_DEBUG=INFO", "RCCL_BUFFSIZE=1048576", "RCCL_NCHANNELS=4", "NCCL_DEBUG=INFO", "NCCL_BUFFSIZE=1048576",
			"NCCL_MIN_NCHANNELS=4", "NCCL_MAX_NCHANNELS=4", "NCCL_ALGO=Tree,Ring",
		}},
		{"channels", []string{"NCCL_DEBUG=VERSION", "RCCL_NCHANNELS=8", "NCCL_MAX_NCHANNELS=16", "NCCL_ALGO=NVLS"}, []string{
			"RCCL_DEBUG=INFO", "RCCL_BUFFSIZE=1048576", "RCCL_NCHANNELS=8", "NCCL_DEBUG=VERSION", "NCCL_BUFFSIZE=1048576",
			"NCCL_MIN_NCHANNELS=4", "NCCL_MAX_NCHANNELS=16", "NCCL_ALGO=NVLS",
		}},
		{"both", nil, []string{"RCCL_DEBUG=WARN", "RCCL_BUFFSIZE=1", "NCCL_DEBUG=WARN", "NCCL_BUFFSIZE=1", "NCCL_ALGO=Ring,Tree", "NCCL_TREE_THRESHOLD=12345"}},
	} {
		report := filepath.Join(t.TempDir(), "report")
		printed := look(t, c.configuration, dir, append(c.variables, "NCCLTEST_REPORT="+report)...)
		if of := slices.Contains(c.want, "NCCL_DEBUG=INFO"); of != strings.Contains(printed, "logged: NCCL INFO a line of the library's") {
			t.Errorf("%s: the log has got no line, or one that nobody has asked for:\n%s", c.configuration, printed)
		}
		text, err := os.ReadFile(report)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Fields(string(text))
		if want := slices.Concat(c.want, c.want); !slices.Equal(got, want) { // each of the two libraries
			t.Errorf("%s, %v: the libraries read\n%v, expected\n%v", c.configuration, c.variables, got, want)
		}
	}
}

func TestPickRefuses(t *testing.T) {
	if _, err := Factories(nil); !usage.Is(err) || !strings.Contains(err.Error(), "no configuration is given") {
		t.Errorf("no configuration: %v", err)
	}
	list, err := Factories(&Configuration{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		if !slices.Contains(Names(), f.Name()) {
			t.Errorf("%s is not among %v", f.Name(), Names())
		}
		if picked, err := Pick(list, f.Name()); picked != f || err != nil {
			t.Errorf("%s: %v, %v", f.Name(), picked, err)
		}
	}
	if _, err := Pick(list, "gloo"); !usage.Is(err) || !strings.Contains(err.Error(), `unknown back end "gloo": expected nccl, rccl, ring or auto`) {
		t.Errorf("gloo: %v", err)
	}
}
