package readerstest

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// The real node_exporter shows the series of both files of a node, where it would drop those
// that an earlier file has.
func TestNodeExporterShowsTwoRuns(t *testing.T) {
	exporter, err := exec.LookPath("prometheus-node-exporter")
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Fatal(err)
	case err != nil:
		t.Skipf("%v: expected Debian's prometheus-node-exporter", err)
	}
	dir, about := t.TempDir(), map[string]string{}
	for name, device := range map[string]string{"rail0-shm": "shm:0", "rail0-soft": "soft:lo"} {
		path := filepath.Join(dir, name+".prom")
		if code := ringcli(t, "local", "-n", "2", "--device", device, "-c", "all-reduce --size 4K --iters 5 --check", "--metrics", path); code != 0 {
			t.Fatalf("exit code %d", code)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if words := strings.Fields(line); words[0] == "#" {
				key := words[1] + " " + words[2]
				if was, is := about[key]; is && was != line {
					t.Errorf("%s differs: %s and %s", key, was, line)
				}
				about[key] = line
			}
		}
	}
	text := scraped(t, exporter, dir)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if got := families["node_textfile_scrape_error"]; got == nil || got.Metric[0].GetGauge().GetValue() != 0 {
		t.Errorf("the exporter reports an error: %v", got)
	}
	for name, family := range families {
		rings := map[string]int{}
		for _, m := range family.Metric {
			for _, l := range m.Label {
				if l.GetName() == "ring" {
					rings[l.GetValue()]++
				}
			}
		}
		if strings.HasPrefix(name, "ringcli_") && name != "ringcli_counted_total" && len(rings) != 2 {
			t.Errorf("%s is of %v: expected both runs", name, rings)
		}
	}
	if families["ringcli_run_success"] == nil {
		t.Errorf("no series of ringcli:\n%s", text)
	}
}

// scraped is what an exporter answers that reads a folder.
func scraped(t *testing.T, exporter, dir string) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exporter, "--collector.disable-defaults", "--collector.textfile", "--collector.textfile.directory="+dir, "--web.listen-address="+address)
	var out strings.Builder
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = c.Process.Kill() // it may have ended
		_ = c.Wait()
		if t.Failed() {
			t.Log(out.String())
		}
	}()
	for limit := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		text, err := get(fmt.Sprintf("http://%s/metrics", address))
		if err == nil {
			return text
		} else if time.Now().After(limit) {
			t.Fatalf("the exporter does not answer: %v", err)
		}
	}
}

func get(url string) (string, error) {
	answer, err := http.Get(url)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}
