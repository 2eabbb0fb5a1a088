package session

import (
	"errors"
	"slices"
	"testing"
)

func TestSnakeCase(t *testing.T) {
	for name, want := range map[string]string{"RTS": "rts", "CopiedAllGather": "copied_all_gather", "Sent": "sent", "QPTimeouts": "qp_timeouts"} {
		if got := snakeCase(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// closing tells in which order such are closed.
type closing struct {
	key    string
	closed *[]string
}

func (c closing) Close() error {
	*c.closed = append(*c.closed, c.key)
	return errors.New(c.key)
}

// TestClosedInOrder: on each rank alike, and all though some fail.
func TestClosedInOrder(t *testing.T) {
	want := []string{"a", "b", "c", "d", "e", "f"}
	var closed []string
	all := map[string]closing{}
	for _, key := range want {
		all[key] = closing{key, &closed}
	}
	if err := closeAll(all); !slices.Equal(closed, want) || err == nil || err.Error() != "a\nb\nc\nd\ne\nf" {
		t.Errorf("closed %q with %v, expected %q", closed, err, want)
	}
}
