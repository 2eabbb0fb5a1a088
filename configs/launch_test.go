package configs

import (
	"errors"
	"strings"
	"testing"
)

// launchVariables are those of a rank and of the number of ranks, in their order.
var launchVariables = map[string][]string{
	"index":      {"RINGCLI_INDEX", "RANK", "OMPI_COMM_WORLD_RANK", "WORLD_RANK", "PMI_RANK", "SLURM_PROCID"},
	"world-size": {"RINGCLI_WORLD_SIZE", "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"},
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
				for _, bad := range []string{"three", "1.5", "-7", "0x3"} {
					t.Setenv(name, bad)
					if _, err := Load(parsed(t), ""); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), bad) {
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
		if _, err := Load(parsed(t), ""); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "MASTER_PORT") {
			t.Errorf("%v: expected an error that names MASTER_PORT", err)
		}
	})
}
