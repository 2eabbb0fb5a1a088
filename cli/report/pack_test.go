package report

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"ringcli/cli/clitest"
	"ringcli/cli/command"
	"ringcli/cli/doctor"
	"ringcli/cli/session"
	"ringcli/configs"
)

// unpacked are the files of an archive by name, and their names in its order.
func unpacked(t *testing.T, packed []byte) (files map[string]string, names []string) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, names
		}
		data, errRead := io.ReadAll(r)
		if err := errors.Join(err, errRead); err != nil {
			t.Fatal(err)
		}
		files[h.Name], names = string(data), append(names, h.Name)
	}
}

// wellKept is a node that has everything.
func wellKept(t *testing.T) About {
	t.Helper()
	s := session.New(strings.NewReader(""), io.Discard, io.Discard, nil, nil)
	var err error
	if s.Config, err = configs.Load(nil, os.DevNull); err != nil {
		t.Fatal(err)
	}
	says := func(text string) func(context.Context, *session.Session, command.Call) error {
		return func(_ context.Context, s *session.Session, _ command.Call) error { return s.Out.Text(text) }
	}
	table := command.NewTable()
	table.Add(command.Row{Name: "version", Where: command.Process, Run: says("1.2.3\n")}, command.Row{Name: "devices", Where: command.Process, Run: says("mlx5_0\n")})
	files := fstest.MapFS{}
	for _, n := range nodeFiles {
		for _, pattern := range n.patterns {
			name := strings.NewReplacer("*/fw_ver", "mlx5_0/fw_ver", "[rw]", "r", "*", "x").Replace(pattern)
			files[name] = &fstest.MapFile{Data: []byte("says " + name)}
		}
	}
	return About{
		Session: s, Table: table, Files: files, Environ: []string{"UCX_TLS=rc"},
		Found: []doctor.Preflight{{Command: "doctor", Check: "clock", Verdict: doctor.Warn, Value: "not synchronised"}},
	}
}

func packed(t *testing.T, a About) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := a.pack(t.Context(), &b, "r", "a title", time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// What is in an archive, by name; the manifest has a line for each.
func TestGoldenNames(t *testing.T) {
	dir := t.TempDir()
	links, binary := filepath.Join(dir, "links.json"), filepath.Join(dir, "core.gz")
	if err := errors.Join(os.WriteFile(links, []byte(`{"password":["hunter2",{"x":"hunter2"}],"env":[{"name":"DB_PWD","value":"hunter2"}]}`), 0o600), os.WriteFile(binary, []byte{0x1f, 0x8b, 0xff}, 0o600)); err != nil {
		t.Fatal(err)
	}
	a := wellKept(t)
	a.Recorder, a.Records, a.Results = true, []string{links}, []string{links, links, binary}
	files, names := unpacked(t, packed(t, a))
	clitest.Golden(t, "testdata/names.txt", strings.Join(names, "\n")+"\n")
	list := files["r/"+manifest]
	for _, name := range names[:len(names)-1] {
		if !strings.Contains(list, "\n"+strings.TrimPrefix(name, "r/")+" ") {
			t.Errorf("the manifest says nothing of %s\n%s", name, list)
		}
	}
	for _, want := range []string{"a title\n", "results/core.gz          it is no text", "results/2-links.json     1 by the rule name, 1 by the rule pair", "variables that do not begin with"} {
		if !strings.Contains(list, want) {
			t.Errorf("the manifest does not say %q\n%s", want, list)
		}
	}
	for name, text := range files {
		if strings.Contains(text, "hunter2") {
			t.Errorf("a secret is in %s", name)
		}
	}
	if text, want := files["r/results/links.json"], `{"password":"[left out: name]","env":[{"name":"DB_PWD","value":"[left out: pair]"}]}`; text != want {
		t.Errorf("links.json: %s: expected %s", text, want)
	}
	if text := files["r/doctor.json"]; !strings.Contains(text, `"verdict":"WARN"`) {
		t.Errorf("doctor.json: %s", text)
	}
	if text := files["r/node/rdma.txt"]; !strings.Contains(text, "== /sys/class/infiniband/mlx5_0/fw_ver\nsays ") {
		t.Errorf("rdma.txt: %s", text)
	}
}

// What cannot be had is told, and the rest is there.
func TestMissing(t *testing.T) {
	a := wellKept(t)
	a.Files, a.Environ = fstest.MapFS{"proc/version": &fstest.MapFile{Data: bytes.Repeat([]byte("Linux\n"), mostOfNode/4)}}, nil
	a.Table = command.NewTable()
	a.Table.Add(command.Row{Name: "version", Where: command.Process, Run: func(_ context.Context, s *session.Session, _ command.Call) error { return s.Out.Text("1.2.3\n") }},
		command.Row{Name: "devices", Where: command.Process, Run: func(context.Context, *session.Session, command.Call) error { return errors.New("password=hunter2") }})
	files, names := unpacked(t, packed(t, a))
	if slices.Contains(names, "r/node/rdma.txt") || slices.Contains(names, "r/environment.txt") || !slices.Contains(names, "r/version.json") {
		t.Errorf("%q", names)
	}
	for _, want := range []string{"node/rdma.txt            nothing of it is there", "node/system.txt          not there: /etc/os-release", "devices.json             password=[left out: name]"} {
		if list := files["r/"+manifest]; !strings.Contains(list, want) {
			t.Errorf("the manifest does not say %q\n%s", want, list)
		}
	}
	if text := files["r/node/system.txt"]; len(text) > mostOfNode+1000 || !strings.HasSuffix(text, "...\n") {
		t.Errorf("%d bytes of a file that is long", len(text))
	}
}

// Who is interrupted meanwhile has no archive that looks whole.
func TestInterrupted(t *testing.T) {
	a := wellKept(t)
	ctx, cancel := context.WithCancel(t.Context())
	a.Table = command.NewTable()
	a.Table.Add(command.Row{Name: "version", Where: command.Process, Run: func(context.Context, *session.Session, command.Call) error { cancel(); return nil }})
	var b bytes.Buffer
	if _, err := a.pack(ctx, &b, "r", "", time.Now()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A rank's part stays in the rank's folder, and a broken one is an error.
func TestAdopt(t *testing.T) {
	var theirs, all bytes.Buffer
	their := newArchive(&theirs, "", time.Now(), nil)
	if err := errors.Join(their.put("../../etc/passwd", []byte("x")), their.put("/abs", []byte("y")), their.close("theirs")); err != nil {
		t.Fatal(err)
	}
	z := newArchive(&all, "r", time.Now(), nil)
	if err := errors.Join(z.adopt("rank1", theirs.Bytes()), z.tar.Close(), z.zip.Close()); err != nil {
		t.Fatal(err)
	}
	_, names := unpacked(t, all.Bytes())
	if want := []string{"r/rank1/etc/passwd", "r/rank1/abs", "r/rank1/" + manifest}; !slices.Equal(names, want) {
		t.Errorf("%q: expected %q", names, want)
	}
	for _, broken := range [][]byte{nil, []byte("no archive"), theirs.Bytes()[:theirs.Len()/2]} {
		if err := newArchive(io.Discard, "r", time.Now(), nil).adopt("rank1", broken); err == nil {
			t.Errorf("%d bytes that are no archive pass", len(broken))
		}
	}
}

// The name of an archive is one file's, whatever the host is called.
func TestFolder(t *testing.T) {
	now := time.Date(2026, 11, 23, 4, 50, 0, 0, time.UTC)
	for host, want := range map[string]string{"node0.rack-1": "node0.rack-1", "../a b": "a-b", "": "node"} {
		if got := folderOf(host, now); got != "ringcli-report-"+want+"-20261123T045000Z" {
			t.Errorf("%q: %s", host, got)
		}
	}
}
