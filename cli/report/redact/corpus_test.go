package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// ringSecret is the ring's in the corpus.
const ringSecret = "5f1d0c77Ring/Secret+9a"

// sample is a document of the corpus: what must go, and what must stay.
type sample struct {
	kind, title string
	gone, stay  []string
	text        string
}

func samples(t testing.TB) (list []sample) {
	t.Helper()
	all, err := os.ReadFile("testdata/secrets.txt")
	if err != nil {
		t.Fatal(err)
	}
	for i, document := range strings.Split("\n"+string(all), "\n### ") {
		if i == 0 {
			continue // what the file is
		}
		var s sample
		head, rest, _ := strings.Cut(document, "\n")
		s.kind, s.title, _ = strings.Cut(head, ": ")
		for strings.HasPrefix(rest, "# go: ") || strings.HasPrefix(rest, "# stay: ") {
			var line string
			line, rest, _ = strings.Cut(rest, "\n")
			if gone, is := strings.CutPrefix(line, "# go: "); is {
				s.gone = append(s.gone, gone)
			} else {
				s.stay = append(s.stay, strings.TrimPrefix(line, "# stay: "))
			}
		}
		s.text = rest + "\n"
		for _, secret := range s.gone {
			if !strings.Contains(strings.ToLower(s.text), strings.ToLower(secret)) {
				t.Fatalf("%s: %q is not in it", head, secret)
			}
		}
		list = append(list, s)
	}
	return list
}

// harmlessTexts are lines without secrets: by hand, and as ringcli prints them.
func harmlessTexts(t testing.TB) (texts []string) {
	t.Helper()
	for _, name := range []string{"testdata/harmless.txt", "testdata/ringcli.txt"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

// jsonThroughout reports whether a text is JSON throughout.
func jsonThroughout(text []byte) bool {
	d := json.NewDecoder(bytes.NewReader(text))
	n := 0
	for ; ; n++ {
		var v any
		if err := d.Decode(&v); err != nil {
			return n > 0 && errors.Is(err, io.EOF)
		}
	}
}

// No secret of the corpus is left, in any case; JSON stays JSON.
func TestSecretsGo(t *testing.T) {
	secrets, left, documents := 0, 0, samples(t)
	stays, lost := 0, 0
	for _, s := range documents {
		r := New([][]byte{[]byte(ringSecret)})
		clean, removed := r.Text([]byte(s.text))
		for _, secret := range s.gone {
			secrets++
			if bytes.Contains(bytes.ToLower(clean), bytes.ToLower([]byte(secret))) {
				left++
				t.Errorf("%s: %s: %q is left:\n%s", s.kind, s.title, secret, clean)
			}
		}
		for _, stay := range s.stay {
			stays++
			if !bytes.Contains(clean, []byte(stay)) {
				lost++
				t.Logf("%s: %s: %q has gone:\n%s", s.kind, s.title, stay, clean)
			}
		}
		if len(removed) == 0 {
			t.Errorf("%s: %s: no removal is counted", s.kind, s.title)
		}
		if jsonThroughout([]byte(s.text)) && !jsonThroughout(clean) {
			t.Errorf("%s: %s: no JSON any more:\n%s", s.kind, s.title, clean)
		}
		if again, _ := r.Text(clean); !bytes.Equal(again, clean) {
			t.Errorf("%s: %s: redacted twice:\n%sonce:\n%s", s.kind, s.title, again, clean)
		}
	}
	t.Logf("%d documents, %d secrets, %d left; of %d harmless parts beside them %d have gone", len(documents), secrets, left, stays, lost)
	if lost*50 > stays {
		t.Errorf("%d of %d harmless parts have gone: expected at most 2 %%", lost, stays)
	}
}

// At most 2 % of harmless lines change.
func TestHarmlessLinesStay(t *testing.T) {
	lines, changed := 0, 0
	for _, text := range harmlessTexts(t) {
		clean, removed := New([][]byte{[]byte(ringSecret)}).Text([]byte(text))
		left := map[string]int{}
		for line := range strings.Lines(string(clean)) {
			left[line]++
		}
		for line := range strings.Lines(text) {
			if lines++; left[line] == 0 {
				changed++
				t.Logf("changed: %s", line)
			}
			left[line]--
		}
		t.Log(removed)
	}
	t.Logf("%d harmless lines, %d changed: %.2f %%", lines, changed, 100*float64(changed)/float64(lines))
	if changed*50 > lines {
		t.Errorf("%d of %d harmless lines changed: expected at most 2 %%", changed, lines)
	}
}
