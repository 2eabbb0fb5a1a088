package session

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"ringcli/cli/exit"
	"ringcli/configs"
	"ringcli/configs/codes"
	"ringcli/ring/bootstrap/seal"
)

// TokenVar holds the token itself. It leaves the environment when it is read: no child
// sees it, but the ranks of `local`, which have one of their own.
const TokenVar = configs.TokenVar

// maxTokenFile is more than anybody's token has, in bytes.
const maxTokenFile = 4 << 10

// secretsVar has what the parent of `local`'s ranks was given, for their reports: base64, with
// commas between.
const secretsVar = configs.SecretsVar

// TakeToken takes the token from the environment, and what a parent keeps secret.
func (s *Session) TakeToken() error {
	s.secret = []byte(os.Getenv(TokenVar))
	for text := range strings.SplitSeq(os.Getenv(secretsVar), ",") {
		if secret, err := base64.StdEncoding.DecodeString(text); err == nil {
			s.others = append(s.others, secret)
		}
	}
	return errors.Join(os.Unsetenv(TokenVar), os.Unsetenv(secretsVar))
}

// UseToken gives this process a token that is nobody's setting.
func (s *Session) UseToken(secret []byte) {
	s.others, s.secret, s.ownToken = append(s.others, s.secret), secret, true
}

// TokensFor are the variables of a child that has a token of its own.
func (s *Session) TokensFor(token []byte) []string {
	var list []string
	for _, secret := range s.given() {
		list = append(list, base64.StdEncoding.EncodeToString(secret))
	}
	return []string{TokenVar + "=" + string(token), secretsVar + "=" + strings.Join(list, ",")}
}

// Token returns the ring's token, nil if there is none: from the file that a flag or the
// shell names, or the variable, or the file that another variable or the configuration
// names. from says so.
func (s *Session) Token() (token *seal.Token, from string, err error) {
	file := s.Config.Get("token-file")
	path := s.Config.String("token-file")
	named := path != "" && (file.Origin.Source == configs.FromFlag || file.Origin.Source == configs.FromShell)
	switch {
	case s.ownToken, len(s.secret) > 0 && !named:
		token, err = seal.New(s.secret)
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
func (s *Session) given() [][]byte {
	list := append(slices.Clone(s.others), s.secret)
	if path := s.Config.String("token-file"); path != "" {
		secret, _ := readToken(path) // what cannot be read is in nothing that this process writes
		list = append(list, secret)
	}
	return slices.DeleteFunc(list, func(secret []byte) bool { return len(secret) == 0 })
}

// Secrets are the tokens that this process was given, in each form that they may show in,
// for who keeps them out of what others see.
func (s *Session) Secrets() (list [][]byte) {
	for _, secret := range s.given() {
		quoted, _ := json.Marshal(string(secret)) // a string never fails
		list = append(list, secret, quoted[1:len(quoted)-1])
	}
	return list
}

// readToken reads a file that its owner alone can read.
func readToken(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // which does not wait for who writes to a pipe
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode(); mode.Perm()&0o077 != 0 || !mode.IsRegular() {
		return nil, fmt.Errorf("mode %s: expected a file that its owner alone can read: chmod 600 %s", mode, path)
	}
	secret, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	if err == nil && len(secret) > maxTokenFile {
		err = fmt.Errorf("more than %d bytes: expected one line", maxTokenFile)
	}
	return bytes.TrimSpace(secret), err
}
