package configs

import (
	"errors"
	"strings"
	"testing"
)

// launchVariables are those of a rank and of the number of ranks, in their order.
var launchVariables = map[string][]string{
	"index": {"RINGCLI_INDEX", "RANK", "OMPI_COMM_WORLD_RANK", "WORLD_RANK", "PALS_RANKID", "MV2_COMM_WORLD_RANK", "JSM_NAMESPACE_RANK",
		"PMI_RANK", "FLUX_TASK_RANK", "SLURM_PROCID"},
	"world-size": {"RINGCLI_WORLD_SIZE", "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PALS_SIZE", "MV2_COMM_WORLD_SIZE", "JSM_NAMESPACE_SIZE",
		"PMI_SIZE", "FLUX_JOB_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
}

// unlaunched hides the variables of whatever has started the test.
func unlaunched(t *testing.T) {
	isolate(t)
	for _, names := range launchVariables {
		for _, name := range names {
			t.Setenv(name, "")
		}
	}
	for _, name := range []string{"MASTER_ADDR", "MASTER_PORT"} {
		t.Setenv(name, "")
	}
}

// A launcher's rank and size come from the first variable that is set, after the flag; each
// alone is enough.
func TestLaunchVariables(t *testing.T) {
	for setting, names := range launchVariables {
		for i, name := range names {
			t.Run(name, func(t *testing.T) {
				unlaunched(t)
				for _, later := range names[i:] { // they do not count
					t.Setenv(later, "9")
				}
				t.Setenv(name, "3")
				c, err := Load(parsed(t), "")
				if err != nil {
					t.Fatal(err)
				}
				if v := c.Get(setting); v.Value != 3 || v.Origin != (Origin{FromEnv, name}) {
					t.Errorf("%+v: expected 3 from %s", v, name)
				}
				if c, err = Load(parsed(t, "--"+setting, "5"), ""); err != nil {
					t.Fatal(err)
				}
				if v := c.Get(setting); v.Value != 5 || v.Origin != (Origin{FromFlag, setting}) {
					t.Errorf("%+v: expected 5 from the flag", v)
				}
				for _, later := range names[i+1:] {
					t.Setenv(later, "")
				}
				for _, bad := range []string{"three", "1.5", "-7", "0x3"} {
					t.Setenv(name, bad)
					c, err := Load(parsed(t), "")
					if i > 0 && err == nil { // another program's, which a command may not need
						if c.IsSet(setting) {
							t.Errorf("%s=%s sets %s to %s", name, bad, setting, c.Get(setting))
						}
						err = c.CheckForeign("list", setting)
					}
					if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), bad) {
						t.Errorf("%v: expected an error that names %s and %s", err, name, bad)
					}
				}
			})
		}
	}
	t.Run("none", func(t *testing.T) {
		unlaunched(t)
		c, err := Load(parsed(t), "")
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]any{"index": -1, "world-size": 1, "launcher": "auto", "master-addr": "", "master-port": 0, "advertise": "auto"} {
			if v := c.Get(name); v.Value != want || c.IsSet(name) {
				t.Errorf("%+v: expected %v, which is not set", v, want)
			}
		}
	})
	t.Run("master", func(t *testing.T) {
		unlaunched(t)
		t.Setenv("MASTER_ADDR", "node0")
		t.Setenv("MASTER_PORT", "29500")
		c, err := Load(parsed(t), "")
		if err != nil || c.String("master-addr") != "node0" || c.Int("master-port") != 29500 {
			t.Errorf("%v, %v: expected node0 and 29500", c, err)
		}
		t.Setenv("MASTER_PORT", "http")
		if c, err = Load(parsed(t), ""); err != nil {
			t.Fatal(err)
		}
		if err := c.CheckForeign("master-port"); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "MASTER_PORT") {
			t.Errorf("%v: expected an error that names MASTER_PORT", err)
		}
	})
}

// A pod has variables for each Service. Those of a Service whose name begins with ringcli are no
// settings; one that another program reads names Kubernetes if it is needed.
func TestServiceVariables(t *testing.T) {
	links := map[string]string{
		"RINGCLI_SERVICE_HOST": "10.96.0.1", "RINGCLI_SERVICE_PORT": "18600", "RINGCLI_SERVICE_PORT_RING": "18600",
		"RINGCLI_PORT": "tcp://10.96.0.1:18600", "RINGCLI_PORT_18600_TCP": "tcp://10.96.0.1:18600", "RINGCLI_PORT_18600_TCP_PROTO": "tcp",
		"RINGCLI_PORT_18600_TCP_PORT": "18600", "RINGCLI_PORT_18600_TCP_ADDR": "10.96.0.1",
		"RINGCLI_CHECK_PORT_4791_UDP_ADDR": "10.96.0.2", "RINGCLI_TCP_PORT": "tcp://10.96.0.3:18600", "MASTER_PORT": "tcp://10.96.0.4:29500",
	}
	unlaunched(t)
	for name, value := range links {
		t.Setenv(name, value)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := Load(nil, ""); !errors.Is(err, ErrInvalid) {
		t.Errorf("outside Kubernetes: %v", err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	c, err := Load(nil, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"port", "tcp-port", "master-port"} {
		if c.IsSet(name) {
			t.Errorf("%s is %s from %s", name, c.Get(name), c.Get(name).Origin)
		}
	}
	if err := c.CheckForeign("master-port"); err == nil || !strings.Contains(err.Error(), "for the Service master: set enableServiceLinks: false") {
		t.Errorf("MASTER_PORT: %v", err)
	}
	t.Setenv("RINGCLI_TCP_PORT", "many")
	if _, err := Load(nil, ""); !errors.Is(err, ErrInvalid) {
		t.Errorf("a setting that is none of Kubernetes': %v", err)
	}
	t.Setenv("RINGCLI_TCP_PORT", "")
	t.Setenv("RINGCLI_TCP_PRT", "18600")
	if _, err := Load(nil, ""); !errors.Is(err, ErrInvalid) {
		t.Errorf("a misspelt variable: %v", err)
	}
}
