package session

import (
	"testing"
)

func TestSnakeCase(t *testing.T) {
	for name, want := range map[string]string{"RTS": "rts", "CopiedAllGather": "copied_all_gather", "Sent": "sent", "QPTimeouts": "qp_timeouts"} {
		if got := snakeCase(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}
