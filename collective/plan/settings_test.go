package plan

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"ringcli/configs"
)

// The settings take the library's algorithms and protocols, and have its ranges and defaults.
func TestSettings(t *testing.T) {
	setting := func(name string) configs.Setting {
		s, ok := configs.Lookup(name)
		if !ok {
			t.Fatalf("no setting %s", name)
		}
		return s
	}
	var words []any
	aliases := map[string]string{}
	for _, a := range Algorithms() {
		words = append(words, a.String())
		for _, alias := range algorithms[a].Aliases {
			aliases[alias] = a.String()
		}
	}
	if s := setting("algorithm"); !slices.Equal(s.OneOf, words) || !maps.Equal(s.Aliases, aliases) {
		t.Errorf("the setting takes %v and %v: expected %v and %v", s.OneOf, s.Aliases, words, aliases)
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
	if s := setting("segment"); s.Max != MaxSegment {
		t.Errorf("a segment has up to %d bytes in the setting, and %d here", s.Max, MaxSegment)
	}
}
