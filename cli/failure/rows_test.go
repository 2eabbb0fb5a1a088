package failure

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The tests that rows.md names are there, and its counts are those of its rows.
func TestRows(t *testing.T) {
	page, err := os.ReadFile("rows.md")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err = filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			there[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`\bTest\w+`).FindAllString(string(page), -1) {
		if !there[name] {
			t.Errorf("rows.md names %s, which is no test", name)
		}
	}
	rows := strings.Count(string(page), "\n| ") - 1
	not := strings.Count(string(page), "| not provoked")
	if rows != 29 || not != 6 {
		t.Errorf("rows.md has %d rows, %d of them not provoked", rows, not)
	}
}
