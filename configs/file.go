package configs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/viper"

	"ringcli/configs/trust"
)

// Places of a configuration file that nobody named.
const (
	workDirFile = "ringcli.yaml"
	systemFile  = "/etc/ringcli/config.yaml"
)

// FoundFileError is what is wrong with a file that nobody named: it lay in one of the
// usual places. What needs no setting of it can do without.
type FoundFileError struct{ error }

func (e *FoundFileError) Unwrap() error { return e.error }

// ofFile makes an error one of a file that was only found, if it was.
func ofFile(named bool, err error) error {
	if named {
		return err
	}
	return &FoundFileError{err}
}

// SearchPath returns the places of a configuration file that nobody named, in order.
func SearchPath() []string {
	paths := []string{workDirFile}
	// Without a home directory there is no user's file.
	if dir, err := os.UserConfigDir(); err == nil {
		paths = append(paths, filepath.Join(dir, "ringcli", "config.yaml"))
	}
	return append(paths, systemFile)
}

// File returns the path of the configuration file that was read, or "".
func (c *Config) File() string { return c.file }

// Ignored returns why files of the search path were not read: another user can change them
// (trust.ErrUntrusted), or this user may not read them. Each error names its file.
func (c *Config) Ignored() []error { return c.ignored }

// readConfigFile reads the configuration file into v and returns its path, or "" if there is
// none. named tells whether a flag or a variable gave the path.
func readConfigFile(v *viper.Viper, explicit string) (path string, named bool, ignored []error, err error) {
	origin := "--config"
	if explicit == "" {
		explicit, origin = os.Getenv(FileEnvVar), FileEnvVar
	}
	if explicit != "" {
		text, err := trust.ReadFile(explicit)
		if err != nil {
			return "", true, nil, fmt.Errorf("%w: file given by %s: %w: expected a readable file, such as `ringcli config --sample` prints", ErrInvalid, origin, err)
		}
		return explicit, true, nil, parseFile(v, explicit, text)
	}
	for _, path := range SearchPath() {
		text, err := trust.ReadFile(path)
		switch {
		case err == nil:
			err := parseFile(v, path, text)
			if err == nil && path == workDirFile {
				err = checkWorkDirFile(v)
			}
			return path, false, ignored, err
		case errors.Is(err, trust.ErrUntrusted):
			ignored = append(ignored, fmt.Errorf("file %s is ignored: %w", path, err))
		// A directory on the way that this user may not enter hides no file
		// that is meant for this user. A file that this user may not read is reported.
		case errors.Is(err, fs.ErrPermission):
			if _, there := os.Lstat(path); there == nil {
				ignored = append(ignored, fmt.Errorf("file %s is ignored: %w", path, err))
			}
		case !errors.Is(err, fs.ErrNotExist):
			return "", false, ignored, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	return "", false, ignored, nil
}

// parseFile reads the text of a configuration file into v.
func parseFile(v *viper.Viper, path string, text []byte) error {
	v.SetConfigType("yaml") // whatever the name ends in; JSON is YAML too
	if err := v.ReadConfig(bytes.NewReader(text)); err != nil {
		return fmt.Errorf("%w: file %s: %w", ErrInvalid, path, err)
	}
	// Flags, variables and defaults are bound for known names only, so any
	// other key is the file's.
	for _, key := range slices.Sorted(slices.Values(v.AllKeys())) {
		if _, known := Lookup(key); !known {
			return fmt.Errorf("%w: file %s: unknown key %q, the nearest known is %q", ErrInvalid, path, key, nearestSetting(key))
		}
	}
	return nil
}

// checkWorkDirFile refuses settings that a file of the working directory cannot have. The file
// is the user's own, but the user may not know that it is there.
func checkWorkDirFile(v *viper.Viper) error {
	for _, s := range Settings {
		if s.Guarded != "" && v.InConfig(s.Name) {
			return fmt.Errorf("%w: file %s: %s names %s: a file of the working directory cannot set it: give --%s, %s, or the file by --config ./%s",
				ErrInvalid, workDirFile, s.Name, s.Guarded, s.Name, s.Env(), workDirFile)
		}
	}
	return nil
}
