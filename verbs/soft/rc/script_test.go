package rc_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var rewrite = flag.Bool("rewrite", false, "TestConversations: write what comes out into testdata")

// TestConversations plays testdata/*.txt: two queue pairs, a and b, over a wire
// that the script delivers by hand. A block is commands, a line of dashes, and what
// comes out of them, up to an empty line; see conversation.run for the commands.
//
//	go test ./verbs/soft/rc -run TestConversations -rewrite
func TestConversations(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(text))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// play runs a script and returns it with the output that it made.
func play(t *testing.T, text string) string {
	var result strings.Builder
	c := newConversation()
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := 0; i < len(lines); {
		from := i
		var out strings.Builder
		for ; i < len(lines) && lines[i] != "----"; i++ {
			result.WriteString(lines[i] + "\n")
			command, _, _ := strings.Cut(lines[i], "#")
			if command = strings.TrimSpace(command); command == "" {
				continue
			}
			if err := c.run(newCommand(command), &out); err != nil {
				t.Fatalf("line %d: %s: %v", i+1, command, err)
			}
		}
		if i == len(lines) {
			if out.Len() > 0 {
				t.Errorf("line %d: no line of dashes follows", from+1)
				result.WriteString("----\n" + out.String())
			}
			break
		}
		i++
		var want strings.Builder
		for ; i < len(lines) && lines[i] != ""; i++ {
			want.WriteString(lines[i] + "\n")
		}
		if want.String() != out.String() && !*rewrite {
			t.Errorf("line %d: got\n%s\nwant\n%s", from+1, out.String(), want.String())
		}
		result.WriteString("----\n" + out.String())
	}
	return result.String()
}

// command is a line of words, of which some are key=value.
type command struct {
	words  []string
	values map[string]string
}

func newCommand(line string) *command {
	c := &command{values: make(map[string]string)}
	for _, field := range strings.Fields(line) {
		if key, value, ok := strings.Cut(field, "="); ok {
			c.values[key] = value
		} else {
			c.words = append(c.words, field)
		}
	}
	return c
}

func (c *command) word(i int) string {
	if i < len(c.words) {
		return c.words[i]
	}
	return ""
}

func (c *command) has(flag string) bool {
	for _, w := range c.words[1:] {
		if w == flag {
			return true
		}
	}
	return false
}

func (c *command) number(key string, otherwise uint64) uint64 {
	text, ok := c.values[key]
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		panic(fmt.Sprintf("%s=%s: %v", key, text, err))
	}
	return n
}

func (c *command) duration(i int) time.Duration {
	d, err := time.ParseDuration(c.word(i))
	if err != nil {
		panic(err)
	}
	return d
}
