package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"ringcli/cli/exit"
	"ringcli/configs"
	"ringcli/configs/codes"
	"ringcli/configs/trust"
	"ringcli/ring/bootstrap/seal"
)

// TokenVar holds the token itself.
const TokenVar = configs.TokenVar

// maxTokenFile is more than anybody's token has, in bytes.
const maxTokenFile = 4 << 10

// SecretsFlag is the file descriptor of what a parent hands over to its children.
const SecretsFlag = "secrets-fd"

// TakeToken takes the token out of the environment, before anything reads that: no child of
// this process gets it, and /proc/PID/environ no longer shows it.
func TakeToken() []byte {
	token := []byte(os.Getenv(TokenVar))
	if len(token) == 0 {
		return nil
	}
	_ = os.Unsetenv(TokenVar) // the name is valid
	_ = eraseVariable(TokenVar)
	return token
}

// eraseVariable overwrites a variable's value where the kernel reads it for
// /proc/PID/environ. Without /proc, or where a sandbox forbids it, the value stays; the same
// user and root alone can read it there.
func eraseVariable(name string) error {
	block, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		return err
	}
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return err
	}
	// The fields after the program's name, which may hold spaces. See proc(5): field 3 is the
	// first of them, field 50 is env_start.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= 50-3 {
		return errors.New("/proc/self/stat has no env_start")
	}
	start, err := strconv.ParseInt(fields[50-3], 10, 64)
	if err != nil {
		return err
	}
	memory, err := os.OpenFile("/proc/self/mem", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	at := start
	for entry := range bytes.SplitSeq(block, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(name+"=")); ok {
			_, errWrite := memory.WriteAt(make([]byte, len(value)), at+int64(len(name)+1))
			err = errors.Join(err, errWrite)
		}
		at += int64(len(entry) + 1)
	}
	return errors.Join(err, memory.Close())
}

// Secrets are the tokens that this process was given. They do not change once the first
// line runs.
type Secrets struct {
	token  []byte   // of the environment, or of this process's own
	own    bool     // it is this process's own, and no setting replaces it
	others [][]byte // that this process was given and does not use
}

// Set sets what TakeToken has returned.
func (x *Secrets) Set(token []byte) { x.token = token }

// Use gives this process a token that is nobody's setting.
func (x *Secrets) Use(token []byte) {
	x.others, x.token, x.own = append(x.others, x.token), token, true
}

// handover is what a parent hands over to its children: the token of their ring, and what
// else must stay out of reports.
type handover struct {
	Token  []byte   `json:"token"`
	Others [][]byte `json:"others"`
}

// HandOver returns a file in memory with a token for children, each of which gets it as the
// descriptor of SecretsFlag. Arguments and variables would show the token to others.
func (x *Secrets) HandOver(c *configs.Config, token []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("ringcli-secrets", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory for the token: %w", err)
	}
	f := os.NewFile(uintptr(fd), "the children's token")
	if err := json.NewEncoder(f).Encode(handover{token, x.given(c)}); err != nil {
		return nil, errors.Join(fmt.Errorf("write the token: %w", err), f.Close())
	}
	return f, nil
}

// takeOver takes what the parent has handed over. All children share the file and its offset.
func (x *Secrets) takeOver(fd int) error {
	f := os.NewFile(uintptr(fd), "the parent's token")
	var h handover
	if err := errors.Join(json.NewDecoder(io.NewSectionReader(f, 0, math.MaxInt64)).Decode(&h), f.Close()); err != nil {
		return fmt.Errorf("the parent's token: %w", err)
	}
	x.Use(h.Token)
	x.others = append(x.others, h.Others...)
	return nil
}

// Token returns the ring's token, nil if there is none: from the file that a flag or the
// shell names, or the variable, or the file that another variable or the configuration
// names. from says so.
func (x *Secrets) Token(c *configs.Config) (token *seal.Token, from string, err error) {
	file := c.Get("token-file")
	path := file.String()
	named := path != "" && (file.Origin.Source == configs.FromFlag || file.Origin.Source == configs.FromShell)
	switch {
	case x.own, len(x.token) > 0 && !named:
		token, err = seal.New(x.token)
		return token, "env " + TokenVar, err
	case path == "":
		return nil, "", nil
	}
	secret, err := readToken(path)
	if err == nil {
		token, err = seal.New(secret)
	}
	if err != nil {
		return nil, "", exit.Codedf(codes.Token, "token file %s (from %s): %w", path, file.Origin, err)
	}
	return token, "file " + path, nil
}

// given are the tokens that this process and its parent were given.
func (x *Secrets) given(c *configs.Config) [][]byte {
	list := append(slices.Clone(x.others), x.token)
	if path := c.String("token-file"); path != "" {
		secret, _ := readToken(path) // what cannot be read is in nothing that this process writes
		list = append(list, secret)
	}
	return slices.DeleteFunc(list, func(secret []byte) bool { return len(secret) == 0 })
}

// Forms are the tokens that this process was given, in each form that they may show in,
// for who keeps them out of what others see.
func (x *Secrets) Forms(c *configs.Config) (list [][]byte) {
	for _, secret := range x.given(c) {
		quoted, _ := json.Marshal(string(secret)) // a string never fails
		list = append(list, secret, quoted[1:len(quoted)-1])
	}
	return list
}

// readToken reads a file that its owner alone can read and that nobody else can replace.
func readToken(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode(); mode.Perm()&0o077 != 0 || !mode.IsRegular() {
		return nil, fmt.Errorf("mode %s: expected a file that its owner alone can read: chmod 600 %s", mode, path)
	}
	secret, err := trust.ReadFile(path)
	if err == nil && len(secret) > maxTokenFile {
		err = fmt.Errorf("more than %d bytes: expected one line", maxTokenFile)
	}
	return bytes.TrimSpace(secret), err
}
