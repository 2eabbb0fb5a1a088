package repl

import (
	"strings"
	"testing"
)

func TestWatch(t *testing.T) {
	p := newTypist(t, Options{}, true)
	p.alias(t, "say", "echo")
	p.editor.typed <- entry{"watch 100ms say seen", nil}
	p.editor.typed <- entry{"echo after", nil}
	close(p.editor.typed)
	ended := p.start(t)
	eventually(t, "it ran twice", func() bool { return strings.Count(p.out.String(), "\nseen\n") == 2 })
	p.interrupt()
	out, errs := p.finish(t, ended)
	if errs != nil || !strings.HasPrefix(out, "--- ") || !strings.Contains(out, ", every 100ms: echo seen\nseen\n--- ") || !strings.HasSuffix(out, "after\n") {
		t.Errorf("printed %q, reported %v", out, errs)
	}
}

func TestWatchRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"watch 99ms echo a":   "100ms or more",
		"watch 1s":            "expected a command",
		"watch 1s error":      "this failed",
		"watch 1s 'a' # & no": "no such command",
	} {
		p := newTypist(t, Options{}, true)
		_, errs := p.run(t, line)
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("%q: reported %v, want %q", line, errs, want)
		}
	}
	p := newTypist(t, Options{}, true)
	if err := p.Watch(t.Context(), watchFloor, "echo a &"); err == nil {
		t.Error("watched in the background of each")
	}
}
