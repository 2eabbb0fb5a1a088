package topics

import (
	"io/fs"
	"strings"
	"testing"
)

// Every file is a topic, and every topic fits a terminal.
func TestTopics(t *testing.T) {
	files, err := fs.Glob(texts, "*.txt")
	if err != nil || len(files) != len(names) {
		t.Errorf("%d files for %d names: %v", len(files), len(names), err)
	}
	for _, topic := range All() {
		if strings.Contains(topic.Summary, "\n") || strings.HasSuffix(topic.Summary, ".") || len(topic.Summary) > 54 {
			t.Errorf("%s: the summary is no single short line without a full stop: %q", topic.Name, topic.Summary)
		}
		for line := range strings.Lines(topic.Text) {
			if line = strings.TrimRight(line, "\n"); len(line) > 80 || strings.TrimRight(line, " ") != line {
				t.Errorf("%s: longer than 80 bytes, or ends in a space: %q", topic.Name, line)
			}
		}
		if found, ok := Find(topic.Name); !ok || found != topic {
			t.Errorf("Find(%q) = %v, %v", topic.Name, found.Name, ok)
		}
	}
	if _, ok := Find("nonsense"); ok {
		t.Error("nonsense is a topic")
	}
}
