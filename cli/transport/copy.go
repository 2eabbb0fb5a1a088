package transport

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/session"
	"ringcli/cli/timing"
	"ringcli/cli/transport/files"
	"ringcli/cli/transport/talk"
	"ringcli/configs"
	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/trace"
)

// copyRow is `ringcli copy`.
func copyRow() command.Row {
	return command.Row{
		Name: "copy", Group: command.GroupRing, Where: command.Process,
		Summary: "Copy a file to or from a node, over a transport",
		Long: `Copies FILE to HOST:FILE, or the other way round, with RDMA writes. On HOST runs
ringcli transport serve --dir DIR, below which its files are, and named from
there; without --dir it copies nothing, and without a token (--token-file, at
both ends) only for callers of its own host. The data itself is not encrypted.

Both ends take the device that --device says (see ringcli help transport).

What has come is compared with what was sent by SHA-256; then the file gets its
name. Until then it is FILE` + files.Suffix + `: if the copy is cut off, the same
command goes on with that, if what it has is what the source begins with.`,
		Example: `  ringcli transport serve --device soft --dir /data --token-file t    on node0
  ringcli copy --device soft --token-file t big.bin node0:big.bin     on node1
  ringcli copy --device soft --token-file t node0:big.bin .`,
		Args: "FILE HOST:FILE | HOST:FILE FILE", Files: true, Complete: func([]string) []string { return nil }, CheckArgs: func(args []string) error {
			_, err := sidesOf(args)
			return err
		},
		Settings: endSettings, Flags: func(fs *pflag.FlagSet) { portFlag(fs) }, Run: runCopy,
	}
}

// sides are what is copied: a file here, and one of a host.
type sides struct {
	local, host, remote string
	up                  bool // to the host
}

// sidesOf reads them.
func sidesOf(args []string) (s sides, err error) {
	if len(args) != 2 {
		return s, exit.Usagef("copy: %d arguments given: expected FILE and HOST:FILE, or HOST:FILE and FILE", len(args))
	}
	fromHost, fromFile, down := remoteOf(args[0])
	toHost, toFile, up := remoteOf(args[1])
	if up == down {
		return s, exit.Usagef("copy %s %s: expected HOST: before one of them; a file here with a colon in its name is ./NAME", args[0], args[1])
	}
	s = sides{args[0], toHost, toFile, true}
	if down {
		s = sides{args[1], fromHost, fromFile, false}
	}
	if s.host == "" || s.local == "" || down && s.remote == "" {
		return s, exit.Usagef("copy %q %q: expected a HOST, and a FILE; is a variable not set?", args[0], args[1])
	}
	return s, nil
}

// remoteOf reads HOST:FILE; a colon behind a slash is of a file.
func remoteOf(text string) (host, file string, ok bool) {
	if rest, v6 := strings.CutPrefix(text, "["); v6 {
		host, file, ok = strings.Cut(rest, "]:")
		return host, file, ok
	}
	host, file, ok = strings.Cut(text, ":")
	return host, file, ok && !strings.Contains(host, "/")
}

// purposeCopy is that of clients that copy.
const purposeCopy = "copy"

// What a client of a copy asks for.
const (
	kindPut = "put" // the server receives
	kindGet = "get" // the server sends
)

// request is the body of both.
type request struct {
	File string `json:"file"` // with slashes
	Base string `json:"base"` // of the client's file: where File is a directory
}

func runCopy(ctx context.Context, s *session.Session, call command.Call) (err error) {
	side, err := sidesOf(call.Args)
	if err != nil {
		return err
	}
	local, err := openLocal(side)
	if err != nil {
		return exit.Usagef("copy: %w", err)
	}
	defer func() { err = errors.Join(err, local.close()) }()
	o := settingsOf(s)
	c, err := dial(ctx, s, net.JoinHostPort(side.host, strconv.Itoa(command.NumberOf(call.Flags, "tcp-port"))), "copy", purposeCopy, o.Timeout)
	if err != nil {
		return err
	}
	defer c.Close()
	begun := time.Now()
	t, own, peer, err := o.call(c.Context(), c)
	if err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	p := newProgress(s, call.Args[0])
	defer s.Progress.End()
	one := files.Copy{Talk: c, Transport: t, Progress: p.tell}
	kind := kindPut
	if !side.up {
		kind = kindGet
	}
	if err = c.Send(kind, request{side.remote, filepath.Base(side.local)}); err == nil {
		if side.up {
			err = one.Send(local.file)
		} else {
			err = one.Receive(local.root, local.name)
		}
	}
	if err != nil {
		return fmt.Errorf("copy: %w", coded(err))
	}
	seconds := time.Since(begun).Seconds()
	s.Progress.End()
	return s.Out.Print(CopyResult{
		Command: "copy", OK: true, From: call.Args[0], To: call.Args[1], Bytes: one.Size, Resumed: one.From, Seconds: seconds,
		BW: timing.SixPlaces(float64(one.Size-one.From) / seconds / 1e9), SHA256: one.SHA256, Device: own.Device, Why: own.Why, PeerDevice: peer.Device, PeerWhy: peer.Why,
	})
}

// localFile is the file of this end: open, or where it will be.
type localFile struct {
	file *os.File
	root *os.Root
	name string
}

func openLocal(s sides) (*localFile, error) {
	if s.up {
		file, err := os.Open(s.local)
		if err != nil {
			return nil, err
		}
		if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
			return nil, errors.Join(fmt.Errorf("%s is no regular file", s.local), err, file.Close())
		}
		return &localFile{file: file}, nil
	}
	dir, name := filepath.Split(s.local)
	if info, err := os.Stat(s.local); name == "" || name == "." || name == ".." || err == nil && info.IsDir() {
		dir, name = s.local, path.Base(s.remote)
	}
	root, err := os.OpenRoot(filepath.Clean(dir + "/."))
	if err != nil {
		return nil, err
	}
	return &localFile{root: root, name: name}, nil
}

func (l *localFile) close() error {
	if l.file != nil {
		return l.file.Close()
	}
	return l.root.Close()
}

// copyFor serves a client's copy.
func (v *server) copyFor(c *talk.Conn, one *files.Copy) error {
	kind, read, err := c.Next()
	if err != nil {
		return err
	}
	var asked request
	if err := read(&asked); err != nil {
		return err
	}
	name := path.Clean(asked.File)
	if info, err := v.root.Stat(name); kind == kindPut && (asked.File == "" || strings.HasSuffix(asked.File, "/") || err == nil && info.IsDir()) {
		name = path.Join(name, path.Base(asked.Base))
	}
	switch kind {
	case kindPut:
		err = one.Receive(v.root, name)
	case kindGet:
		var f *os.File
		if f, err = v.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0); err == nil { // a FIFO waits for nobody
			err = errors.Join(one.Send(f), f.Close())
		}
	default:
		err = fmt.Errorf("%s asks for %q: run the same ringcli at both ends", c.Name(), kind)
	}
	return v.ofFile(err)
}

// ofFile says what a client may copy, where it has asked for something else.
func (v *server) ofFile(err error) error {
	var at *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.As(err, &at) && strings.Contains(at.Err.Error(), "escapes"):
		return usage.Errorf("%w: expected a file below the directory that is served, as named from there", err)
	case errors.Is(err, fs.ErrPermission):
		return codes.With(codes.Permission, err)
	case errors.Is(err, talk.ErrBye):
		return errors.New("the client has ended before the copy")
	}
	return err
}

// mayCopy refuses a client whom no files are served.
func (v *server) mayCopy(c *talk.Conn) error {
	switch {
	case v.root == nil:
		return usage.Codedf(codes.Permission, "it serves no files: start it with `ringcli transport serve --dir DIR`")
	case !v.secret && !c.IsLocal():
		return usage.Codedf(codes.Token, "without a token it serves files to its own host alone: give both ends the same --token-file or RINGCLI_TOKEN")
	}
	return nil
}

// progress tells how far a copy is: on a terminal in a line of its own, else now and then.
type progress struct {
	s           *session.Session
	what        string
	begun, said time.Time
	from        int64
}

// sayEvery is the pause between two lines where there is no terminal.
const sayEvery = 10 * time.Second

func newProgress(s *session.Session, what string) *progress {
	now := time.Now()
	s.Progress.Begin("%s", path.Base(what))
	return &progress{s: s, what: path.Base(what), begun: now, said: now, from: -1}
}

// barWidth is that of a whole bar.
const barWidth = 20

func (p *progress) tell(bytes, size int64) {
	if p.from < 0 {
		p.from = bytes
	}
	now := time.Now()
	rate := float64(bytes-p.from) / max(now.Sub(p.begun).Seconds(), 1e-3)
	left := "?"
	if rate > 0 {
		left = (time.Duration(float64(size-bytes)/rate) * time.Second).String()
	}
	done := 0
	if size > 0 {
		done = int(bytes * 100 / size)
	}
	text := fmt.Sprintf("%3d%% of %s, %s/s, %s left", done, configs.FormatSize(uint64(size)), configs.FormatSize(uint64(rate)>>20<<20), left)
	bar := strings.Repeat("#", done*barWidth/100)
	p.s.Progress.Step("[%-*s] %s", barWidth, bar, text)
	if now.Sub(p.said) >= sayEvery && !trace.IsTerminal(p.s.Stderr) {
		p.said = now
		_, _ = fmt.Fprintf(p.s.Stderr, "%s: %s\n", p.what, text)
	}
}
