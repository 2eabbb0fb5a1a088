package verbstest

import "testing"

// Long skips a test in a short run, for which people wait: `make test-long` runs it, and so does
// the race detector, whose runs are short.
func Long(t *testing.T) {
	t.Helper()
	if testing.Short() && !Race {
		t.Skip("`make test-long` runs it")
	}
}
