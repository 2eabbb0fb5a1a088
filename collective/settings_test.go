package collective

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"ringcli/configs"
)

// The settings take what the library takes: all names, the algorithms' aliases, and
// the same ranges and defaults.
func TestSettings(t *testing.T) {
	setting := func(name string) configs.Setting {
		s, ok := configs.Lookup(name)
		if !ok {
			t.Fatalf("no setting %s", name)
		}
		return s
	}
	var aliases []string
	for _, a := range Algorithms() {
		aliases = append(aliases, algorithms[a].aliases...)
		if !slices.Contains(setting("algorithm").OneOf, any(a.String())) {
			t.Errorf("algorithm %s is no value of the setting", a)
		}
	}
	for alias, name := range setting("algorithm").Aliases {
		if a, err := ParseAlgorithm(alias); err != nil || a.String() != name {
			t.Errorf("%s is %s in the setting and %s here, %v", alias, name, a, err)
		}
	}
	if known := slices.Sorted(maps.Keys(setting("algorithm").Aliases)); !slices.Equal(known, slices.Sorted(slices.Values(aliases))) {
		t.Errorf("aliases of algorithms: %v in the setting, %v here", known, aliases)
	}
	for _, p := range Protocols() {
		if !slices.Contains(setting("protocol").OneOf, any(p.String())) {
			t.Errorf("protocol %s is no value of the setting", p)
		}
	}
	for _, word := range setting("protocol").OneOf {
		if _, err := ParseProtocol(fmt.Sprint(word)); err != nil {
			t.Error(err)
		}
	}
	if d := setting("depth"); d.Max != MaxDepth || d.Default != DefaultDepth {
		t.Errorf("depth is up to %d, by default %v, in the setting, and %d and %d here", d.Max, d.Default, MaxDepth, DefaultDepth)
	}
	if s := setting("segment"); s.Max != maxSegment {
		t.Errorf("a segment has up to %d bytes in the setting, and %d here", s.Max, maxSegment)
	}
}
