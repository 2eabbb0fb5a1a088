package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// ErrFile is wrapped by errors about files that are no recordings.
var ErrFile = errors.New("trace: not a recording of ringcli")

// Read reads the recordings of a file in either dump format: one that WriteRecordings has
// written, or those of all ranks that a merge has.
func Read(r io.Reader) ([]Recording, error) {
	in := json.NewDecoder(bufio.NewReader(r))
	var first json.RawMessage
	var what struct {
		Type   string          `json:"type"`
		Events json.RawMessage `json:"traceEvents"`
	}
	err := in.Decode(&first)
	if err == nil {
		err = json.Unmarshal(first, &what)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: want Chrome JSON or JSON lines: %w", ErrFile, err)
	}
	switch {
	case what.Events != nil:
		return readChrome(first)
	case what.Type == "recording":
		return readLines(first, in)
	}
	return nil, fmt.Errorf("%w: neither Chrome JSON nor JSON lines with a header", ErrFile)
}

// ReadFile reads the recordings of the file at path.
func ReadFile(path string) ([]Recording, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	list, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i := range list {
		list[i].Source = path
	}
	return list, nil
}
