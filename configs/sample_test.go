package configs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// commentedSetting is "#name: value"; prose has a space after its '#'.
var commentedSetting = regexp.MustCompile(`(?m)^#([a-z][a-z-]*:)`)

func TestSampleAsShippedChangesNothing(t *testing.T) {
	c := load(t, Sample())
	for _, v := range c.Values() {
		if v.Origin.Source != FromDefault {
			t.Errorf("%s comes from %s, expected the default", v.Name, v.Origin)
		}
	}
}

func TestSampleHasEverySettingWithItsDefault(t *testing.T) {
	c := load(t, commentedSetting.ReplaceAllString(Sample(), "$1"))
	for i, v := range c.Values() {
		if v.Origin != (Origin{FromFile, c.File()}) {
			t.Errorf("%s comes from %s: it is not in the sample", v.Name, v.Origin)
		}
		if v.Value != Settings[i].Default {
			t.Errorf("%s is %v in the sample, but the default is %v", v.Name, v.Value, Settings[i].Default)
		}
	}
	var order []string
	for _, m := range commentedSetting.FindAllStringSubmatch(Sample(), -1) {
		order = append(order, strings.TrimSuffix(m[1], ":"))
	}
	if want := Names(); !slices.Equal(order, want) {
		t.Errorf("order in the sample %v\nin Settings %v", order, want)
	}
}

// load puts text into a file of its own and loads that.
func load(t *testing.T, text string) *Config {
	t.Helper()
	isolate(t)
	c, err := Load(nil, write(t, filepath.Join(t.TempDir(), "given.yaml"), text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
