package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ringcli/cli/exit"
	"ringcli/cli/session"
	"ringcli/cli/topics"
	"ringcli/configs"
	"ringcli/verbs/verbstest"
)

// user is whom a test runs ringcli as.
type user struct {
	name string
	id   uint32
}

var root, nobody, stranger = user{"root", 0}, user{"nobody", 65534}, user{"a stranger", 54321}

// as starts a program as a user, in a directory.
func (p *process) as(u user, dir string) *process {
	p.Path = "/proc/self/exe" // whose folder may be closed to others
	p.Dir = dir
	p.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: u.id, Gid: u.id}}
	return p
}

// openTemp is a directory that every user can enter: t.TempDir's parent is closed to others.
func openTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ringcli-trust-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// folder is one that a user owns, with a mode.
func folder(t *testing.T, path string, owner user, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return given(t, path, owner, mode)
}

// owned writes a file that a user owns, with a mode.
func owned(t *testing.T, path, text string, owner user, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return given(t, path, owner, mode)
}

// given changes owner and mode.
func given(t *testing.T, path string, owner user, mode os.FileMode) string {
	t.Helper()
	if err := errors.Join(os.Chown(path, int(owner.id), int(owner.id)), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
	return path
}

// A configuration file of the working directory, or of another user's home, is read only if
// the effective user and root alone can have written it and put it there.
func TestWhoseConfigurationIsRead(t *testing.T) {
	verbstest.Long(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can run ringcli as two users")
	}
	const text = "depth: 7\n"
	for _, own := range []user{root, nobody} {
		for name, c := range map[string]struct {
			make func(t *testing.T, dir string)
			read bool
		}{
			"own file, own directory": {func(t *testing.T, dir string) {
				owned(t, folder(t, dir, own, 0o755)+"/ringcli.yaml", text, own, 0o644)
			}, true},
			"root's file, root's directory": {func(t *testing.T, dir string) {
				owned(t, folder(t, dir, root, 0o755)+"/ringcli.yaml", text, root, 0o644)
			}, true},
			"own file in a sticky directory": {func(t *testing.T, dir string) {
				owned(t, folder(t, dir, root, 0o777|os.ModeSticky)+"/ringcli.yaml", text, own, 0o644)
			}, true},
			"a stranger's file in a sticky directory": {func(t *testing.T, dir string) {
				owned(t, folder(t, dir, root, 0o777|os.ModeSticky)+"/ringcli.yaml", text, stranger, 0o644)
			}, false},
			"a stranger's file and directory": {func(t *testing.T, dir string) {
				owned(t, folder(t, dir, stranger, 0o755)+"/ringcli.yaml", text, stranger, 0o644)
			}, false},
			"own file in a stranger's directory": {func(t *testing.T, dir string) {
				owned(t, folder(t, dir, stranger, 0o755)+"/ringcli.yaml", text, own, 0o644)
			}, false},
			"own file in a directory of a group": {func(t *testing.T, dir string) {
				owned(t, folder(t, dir, own, 0o775)+"/ringcli.yaml", text, own, 0o644)
			}, false},
			"group-writable file": {func(t *testing.T, dir string) {
				owned(t, folder(t, dir, own, 0o755)+"/ringcli.yaml", text, own, 0o664)
			}, false},
			"a stranger's symbolic link to an own file": {func(t *testing.T, dir string) {
				target := owned(t, folder(t, dir+"/own", own, 0o755)+"/file", text, own, 0o644)
				link := folder(t, dir, root, 0o777|os.ModeSticky) + "/ringcli.yaml"
				if err := os.Symlink(target, link); err != nil {
					t.Fatal(err)
				}
				if err := os.Lchown(link, int(stranger.id), int(stranger.id)); err != nil {
					t.Fatal(err)
				}
			}, false},
			"a hard link to an own file": {func(t *testing.T, dir string) {
				target := owned(t, folder(t, dir+"/own", own, 0o755)+"/file", text, own, 0o644)
				if err := os.Link(target, folder(t, dir, root, 0o777|os.ModeSticky)+"/ringcli.yaml"); err != nil {
					t.Fatal(err)
				}
			}, false},
		} {
			t.Run(own.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				// Once as the working directory, once as the user's configuration under a HOME
				// that sudo has kept, which is read the same way.
				top := openTemp(t)
				for _, place := range []string{"work", "home/.config/ringcli"} {
					dir := filepath.Join(top, place)
					if err := os.MkdirAll(dir, 0o755); err != nil {
						t.Fatal(err)
					}
					c.make(t, dir)
					p := program(t, "config", "--output", "json")
					p.Env = append(p.Env, "HOME="+filepath.Join(top, "nowhere"), "XDG_CONFIG_HOME=")
					work := dir
					if place != "work" {
						if err := os.Rename(filepath.Join(dir, "ringcli.yaml"), filepath.Join(dir, "config.yaml")); err != nil {
							t.Fatal(err)
						}
						p.Env = append(p.Env, "HOME="+filepath.Join(top, "home"), "SUDO_UID=54321", "SUDO_USER=somebody")
						work = folder(t, filepath.Join(top, "empty"), root, 0o755)
					}
					p.as(own, work).start(t)
					code := p.end(t, hung)
					depth, said := settingOf(t, p.stdout.String(), "depth"), p.stderr.String()
					if code != exit.OK || (depth == "7") != c.read || c.read != (said == "") {
						t.Errorf("%s: exit code %d, depth %s\n%s", place, code, depth, said)
					}
					if !c.read && (strings.Count(said, "\n") != 1 || !strings.Contains(said, "is ignored") || !strings.Contains(said, "expected")) {
						t.Errorf("%s: expected one line that says why the file is ignored:\n%s", place, said)
					}
				}
			})
		}
	}
}

// settingOf is a setting's value in what `config --output json` printed.
func settingOf(t *testing.T, out, name string) string {
	t.Helper()
	for line := range strings.Lines(out) {
		var entry struct{ Name, Value string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		if entry.Name == name {
			return entry.Value
		}
	}
	t.Fatalf("%s is not in\n%s", name, out)
	return ""
}

// Without HOME there is no user's file, and nothing fails.
func TestConfigurationWithoutAHome(t *testing.T) {
	t.Parallel()
	p := program(t, "config", "--output", "json")
	p.Env = append(p.Env, "HOME=", "XDG_CONFIG_HOME=", "XDG_STATE_HOME=")
	p.Dir = t.TempDir()
	p.start(t)
	if code := p.end(t, hung); code != exit.OK || p.stderr.Len() > 0 {
		t.Errorf("exit code %d\n%s", code, &p.stderr)
	}
}

// A file of the working directory names no secret and no file to write, whoever
// owns it; a file that the user names may.
func TestTheWorkingDirectoryNamesNoSecret(t *testing.T) {
	t.Parallel()
	for setting, what := range map[string]string{
		"token-file": "a secret", "junit": "a file to write", "metrics": "a file to write",
		"log-file": "a file to write", "good-hosts": "a file to write", "bad-hosts": "a file to write",
	} {
		dir := t.TempDir()
		marker := filepath.Join(dir, "marker")
		for path, text := range map[string]string{"ringcli.yaml": fmt.Sprintf("%s: %s\n", setting, marker), "marker": "before"} {
			if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, args := range [][]string{{"config"}, {"config", "--config", "./ringcli.yaml"}} {
			p := program(t, append(args, "--output", "json")...)
			p.Dir = dir
			p.start(t)
			code, named := p.end(t, hung), len(args) > 1
			said := p.stdout.String() + p.stderr.String()
			if refused := code == exit.Usage && strings.Contains(said, setting+" names "+what) && strings.Contains(said, "RINGCLI_"); refused == named {
				t.Errorf("%s: %q: exit code %d\n%s", setting, args, code, said)
			}
			if text, err := os.ReadFile(marker); !named && (err != nil || string(text) != "before") {
				t.Errorf("%s: the file that it names is %q, %v", setting, text, err)
			}
		}
	}
}

// Under a HOME of another user the shell runs no lines of that user and writes no history
// there, through a symbolic link for example.
func TestAShellInAStrangersHome(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	home := folder(t, filepath.Join(openTemp(t), "home"), stranger, 0o755)
	victim := owned(t, filepath.Join(openTemp(t), "victim"), "before\n", root, 0o644)
	folder(t, home+"/.config/ringcli", stranger, 0o755)
	owned(t, home+"/.config/ringcli/init.ring", "transcript "+home+"/marker\n", stranger, 0o644)
	if err := os.Symlink(victim, folder(t, home+"/.local/state/ringcli", stranger, 0o755)+"/history"); err != nil {
		t.Fatal(err)
	}
	p := program(t, "shell")
	p.Env = append(p.Env, "HOME="+home, "XDG_CONFIG_HOME=", "XDG_STATE_HOME=")
	p.Dir = openTemp(t)
	p.Stdin = strings.NewReader("version\n")
	p.start(t)
	code, said := p.end(t, hung), p.stderr.String()
	if code != exit.OK || strings.Count(said, "is not used: another user can change it") != 2 {
		t.Errorf("exit code %d\n%s%s", code, &p.stdout, said)
	}
	if _, err := os.Stat(home + "/marker"); err == nil {
		t.Error("the stranger's init file ran")
	}
	info, err := os.Stat(victim)
	if text, _ := os.ReadFile(victim); err != nil || string(text) != "before\n" || info.Mode() != 0o644 {
		t.Errorf("the file that the history is a link to: %v, %q, %v", err, text, info.Mode())
	}
}

// help security names every place of a configuration file, and every setting that the file of
// the working directory cannot have.
func TestSecurityNamesWhatIsRead(t *testing.T) {
	page, ok := topics.Find("security")
	if !ok {
		t.Fatal("there is no such page")
	}
	words := []string{"./ringcli.yaml", "~/.config/ringcli/config.yaml", "/etc/ringcli/config.yaml", configs.FileEnvVar, session.TokenVar, "init.ring", "ringcli/history", "table.json"}
	for _, s := range configs.Settings {
		if s.Guarded != "" {
			words = append(words, s.Name)
		}
	}
	for _, word := range words {
		if !strings.Contains(page.Text, word) {
			t.Errorf("it does not name %s", word)
		}
	}
}

// A file of the working directory does not take the place of a script that ringcli carries; a
// path with a slash names the file.
func TestACarriedScriptComesFirst(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "self-check"), []byte("version\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args    []string
		carried bool
	}{
		{[]string{"-f", "self-check"}, true},
		{[]string{"-c", "source self-check"}, true},
		{[]string{"-f", "./self-check"}, false},
		{[]string{"-f", filepath.Join(dir, "self-check")}, false},
	} {
		p := program(t, append([]string{"local", "-n", "2"}, c.args...)...)
		p.Dir = dir
		p.start(t)
		code, out := p.end(t, hung), p.stdout.String()
		if code != exit.OK || strings.Contains(out, "all-reduce") != c.carried || strings.Contains(out, "platform") == c.carried {
			t.Errorf("%q: exit code %d\n%s%s", c.args, code, out, &p.stderr)
		}
		if noted := strings.Contains(out, "./self-check is the file"); noted != c.carried {
			t.Errorf("%q: it is noted: %v\n%s", c.args, noted, out)
		}
	}
}
