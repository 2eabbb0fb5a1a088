package configs

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed scripts/*.ring
var scripts embed.FS

const scriptSuffix = ".ring"

// ScriptNames returns the names of the embedded scripts, sorted.
func ScriptNames() []string {
	entries, err := scripts.ReadDir("scripts")
	if err != nil {
		panic(err) // the directory is part of the binary
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), scriptSuffix))
	}
	return names
}

// Script returns an embedded script, one command a line: "self-check".
func Script(name string) (string, error) {
	text, err := scripts.ReadFile("scripts/" + name + scriptSuffix) // no Join: ./NAME is a file's path
	if err != nil {
		return "", fmt.Errorf("%w: no script %q, known are %s", ErrInvalid, name, strings.Join(ScriptNames(), ", "))
	}
	return string(text), nil
}
