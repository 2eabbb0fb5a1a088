package cli

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ringcli/cli/exit"
	"ringcli/verbs/verbstest"
)

const testSecret = "3f6c0d8e5a9b417287d1c4e2f0a6b593"

// tokenFile writes a token with a mode.
func tokenFile(t *testing.T, secret string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ring.token")
	if err := os.WriteFile(path, []byte(secret+"\n"), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConfigHidesTheToken(t *testing.T) {
	t.Setenv("RINGCLI_TOKEN", testSecret)
	for _, format := range []string{"table", "json", "csv"} {
		code, out, stderr := here(t, "config", "--output", format, "--trace", "debug")
		if code != exit.OK || !strings.Contains(out, "set (hidden)") || strings.Contains(out+stderr, testSecret) {
			t.Errorf("%s: exit code %d\n%s%s", format, code, out, stderr)
		}
		if os.Getenv("RINGCLI_TOKEN") != "" {
			t.Error("it is still in the environment")
		}
		t.Setenv("RINGCLI_TOKEN", testSecret)
	}
}

func TestBadTokens(t *testing.T) {
	directory := t.TempDir()
	for _, c := range []struct{ file, secret, want string }{
		{tokenFile(t, testSecret, 0o644), "", "chmod 600"},
		{tokenFile(t, testSecret, 0o640), "", "chmod 600"},
		{tokenFile(t, "", 0o600), "", "0 bytes: expected at least 16"},
		{tokenFile(t, strings.Repeat("x", 5000), 0o600), "", "more than 4096 bytes"},
		{filepath.Join(directory, "none"), "", "no such file"},
		{directory, "", "expected a file that its owner alone can read"},
		{"", "short", "5 bytes: expected at least 16"},
	} {
		args := []string{"connect", "--index", "0", "--list", "127.0.0.1"}
		if c.file != "" {
			args = append(args, "--token-file", c.file)
		}
		t.Setenv("RINGCLI_TOKEN", c.secret)
		code, out, stderr := here(t, args...)
		if code != exit.Usage || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit code %d, %s%s: expected %q", c, code, out, stderr, c.want)
		}
	}
}

// The ranks of a ring have their token from a file, or from the variable. It is in none of
// what they print or keep, and no child's arguments.
func TestRingWithTokens(t *testing.T) {
	t.Parallel()
	list := freshList(t, 3)
	traces := t.TempDir()
	var ranks []*process
	for rank, args := range [][]string{
		{"connect", "--index", "0", "-c", "all-reduce --size 64K --check; trace show; status"},
		{"connect", "--index", "1", "--follow", "--token-file", tokenFile(t, testSecret, 0o600)},
		{"connect", "--index", "2", "--follow"},
	} {
		p := program(t, append(args, "--list", strings.Join(list, ","), "--trace", "debug", "--output", "json")...)
		p.Env = append(p.Env, "RINGCLI_TRACE_DIR="+traces)
		if rank != 1 {
			p.Env = append(p.Env, "RINGCLI_TOKEN="+testSecret)
		}
		p.start(t)
		ranks = append(ranks, p)
	}
	for rank, p := range ranks {
		if code := p.end(t, hung); code != exit.OK {
			t.Errorf("rank %d: exit code %d\n%s%s", rank, code, p.stdout.String(), reported(p))
		}
		if strings.Contains(p.stdout.String()+p.stderr.String(), testSecret) {
			t.Errorf("rank %d shows the token", rank)
		}
	}
	gone(t, list)
}

// A rank without the token, and one with another, say so, and so does who has it.
func TestRanksWithOtherTokens(t *testing.T) {
	verbstest.Long(t)
	for _, secret := range []string{"", "another secret of some length"} {
		t.Run(secret, func(t *testing.T) {
			t.Parallel()
			list := freshList(t, 2)
			var ranks []*process
			for rank, secret := range []string{testSecret, secret} {
				p := program(t, "connect", "--index", []string{"0", "1"}[rank], "--list", strings.Join(list, ","), "--timeout", "10s", "-c", "status")
				p.Env = append(p.Env, "RINGCLI_TOKEN="+secret)
				p.start(t)
				ranks = append(ranks, p)
			}
			usage := 0
			for rank, p := range ranks {
				code := p.end(t, hung)
				text := p.stderr.String()
				if code == exit.Usage {
					usage++
				}
				if code == exit.OK || !strings.Contains(text, "token") || !strings.Contains(text, "--token-file") || !strings.Contains(text, "rank 1 (") && !strings.Contains(text, "rank 0 (") {
					t.Errorf("rank %d: exit code %d\n%s", rank, code, text)
				}
				if strings.Contains(text, testSecret) || secret != "" && strings.Contains(text, secret) {
					t.Errorf("rank %d tells: %s", rank, text)
				}
			}
			if usage == 0 {
				t.Error("no rank ended as of bad usage")
			}
		})
	}
}

// The ranks of `local` have a token of their own, and not the user's.
func TestLocalHasATokenOfItsOwn(t *testing.T) {
	t.Parallel()
	p := program(t, "local", "-n", "2", "--token-file", tokenFile(t, testSecret, 0o600), "-c", "all-reduce --size 4K --duration 1h")
	p.Env = append(p.Env, "RINGCLI_TOKEN=the user's, which is not to be used")
	p.start(t)
	for _, pid := range append(childrenOf(t, p.Process.Pid, 2), p.Process.Pid) {
		for _, file := range []string{"environ", "cmdline"} {
			// A process shows its parent's environment until it runs its own program.
			for limit := time.Now().Add(hung); ; time.Sleep(10 * time.Millisecond) {
				text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
				if err == nil && len(text) > 0 && !strings.Contains(string(text), "the user's") {
					break
				}
				if time.Now().After(limit) {
					t.Fatalf("%s of process %d: %q, %v: expected no token", file, pid, text, err)
				}
			}
		}
	}
	_ = p.Process.Signal(os.Interrupt)
	if code := p.end(t, hung); code != exit.Interrupted {
		t.Errorf("exit code %d\n%s", code, p.stderr.String())
	}
}

// The token is in none of what a ring leaves: arguments, output of any format, transcript,
// history, traces, the flight recorder of a failure.
func TestTokenIsInNothing(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"table", "json", "csv"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			dir, list := t.TempDir(), freshList(t, 2)
			file := tokenFile(t, testSecret, 0o600)
			env := plainEnv(dir, "RINGCLI_TRACE_DIR="+dir)
			args := []string{"--list", strings.Join(list, ","), "--output", format, "--trace", "debug"}
			follower := program(t, append([]string{"connect", "--index", "1", "--follow", "--token-file", file}, args...)...)
			follower.Env = append(follower.Env, env...)
			follower.start(t)
			p := pipeWith(t, append(env, "RINGCLI_TOKEN="+testSecret), append([]string{"shell", "--index", "0"}, args...)...)
			for _, line := range []string{"transcript " + dir + "/transcript", "connect", "all-reduce --size 4K --check", "show", "show token-file", "status", "qp", "counters", "trace show", "history", "set token-file " + file, "show token-file", "reconnect", "ping", "help security"} {
				p.line(line)
			}
			p.await(p.out, "A process of the same user can do", 1)
			for _, pid := range []int{p.Process.Pid, follower.Process.Pid} {
				argv, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				if err != nil || strings.Contains(string(argv), testSecret) {
					t.Errorf("arguments: %q, %v", argv, err)
				}
			}
			_ = follower.Process.Kill() // what follows fails, and is recorded
			p.line("all-reduce --size 4K --duration 1m")
			if code := p.over(); code != exit.Critical {
				t.Errorf("exit code %d\n%s", code, p.err)
			}
			_ = follower.Wait()
			kept := map[string]string{"output": p.out.String(), "errors": p.err.String(), "a follower's output": follower.stdout.String(), "a follower's errors": follower.stderr.String()}
			err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
				if err != nil || !entry.Type().IsRegular() {
					return err
				}
				text, err := os.ReadFile(path)
				kept[path] = string(text)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			recorded := false
			for what, text := range kept {
				recorded = recorded || strings.HasSuffix(what, ".trace.json")
				for _, form := range []string{testSecret, base64.StdEncoding.EncodeToString([]byte(testSecret)), hex.EncodeToString([]byte(testSecret))} {
					if strings.Contains(text, form) {
						t.Errorf("%s has the token", what)
					}
				}
			}
			if kept[dir+"/transcript"] == "" || !recorded {
				t.Errorf("no transcript, or no record of the failure: %d files", len(kept)-4)
			}
		})
	}
}

// The token is in no environment, from the first moment on: not of the process that was given
// it, nor of a program that this starts, nor of its ranks.
func TestNoEnvironmentShowsTheToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	seen := filepath.Join(dir, "seen")
	script := "#!/bin/sh\nenv >" + seen + "\ntr '\\0' '\\n' </proc/$PPID/environ >>" + seen + "\necho end >>" + seen + "\n"
	if err := os.WriteFile(filepath.Join(dir, "nft"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	p := program(t, "doctor") // which asks nft for the rules of the firewall
	p.Env = append(p.Env, "RINGCLI_TOKEN="+testSecret, "PATH="+dir+":"+os.Getenv("PATH"))
	p.start(t)
	p.end(t, hung) // with what it finds here
	text, err := os.ReadFile(seen)
	if err != nil || strings.Count(string(text), "PATH="+dir) < 2 || !strings.HasSuffix(string(text), "end\n") {
		t.Errorf("nft saw %q, %v\n%s%s", text, err, &p.stdout, &p.stderr)
	}
	if strings.Contains(string(text), testSecret) {
		t.Errorf("an environment shows the token:\n%s", text)
	}
	ring := pipeWith(t, []string{"RINGCLI_TOKEN=" + testSecret}, "local", "-n", "2", "--shell")
	ring.line("show protocol")
	ring.await(ring.out, "auto", 1)
	for _, pid := range append(childrenOf(t, ring.Process.Pid, 1), ring.Process.Pid) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil || !strings.Contains(string(text), "PATH=") || strings.Contains(string(text), testSecret) {
			t.Errorf("process %d: an environment shows the token: %q, %v", pid, text, err)
		}
	}
	if code := ring.over(); code != exit.OK {
		t.Errorf("exit code %d\n%s", code, ring.err)
	}
}

// A token in a file that another user owns, or can put in its place, is nobody's secret.
func TestAStrangersTokenFile(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	dir := openTemp(t)
	for name, path := range map[string]string{
		"belongs to user":              owned(t, filepath.Join(dir, "token"), testSecret, stranger, 0o600),
		"its directory":                owned(t, folder(t, dir+"/theirs", stranger, 0o755)+"/token", testSecret, root, 0o600),
		"only its owner can write: ch": owned(t, folder(t, dir+"/open", root, 0o777)+"/token", testSecret, root, 0o600),
	} {
		code, _, said := here(t, "connect", "--index", "0", "--list", "127.0.0.1", "--token-file", path)
		if code != exit.Usage || !strings.Contains(said, name) || !strings.Contains(said, "another user can change it") {
			t.Errorf("%s: exit code %d: %s", path, code, said)
		}
	}
}
