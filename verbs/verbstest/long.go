package verbstest

import (
	"os"
	"testing"
)

// Long skips a test in a short run, for which people wait: `make test-long` runs it, and so does
// the race detector, whose runs are short.
func Long(t *testing.T) {
	t.Helper()
	if testing.Short() && !Race {
		t.Skip("`make test-long` runs it")
	}
}

// Full tells whether all is to run, whatever it takes: RINGTEST_MATRIX=full.
func Full() bool { return os.Getenv("RINGTEST_MATRIX") == "full" }

// Longest skips a test in a long run, too, such as CI's.
func Longest(t *testing.T) {
	t.Helper()
	if !Full() {
		t.Skip("`RINGTEST_MATRIX=full make test-long` runs it")
	}
}
