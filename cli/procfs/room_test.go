package procfs

import (
	"os"
	"testing"

	"ringcli/cli/exit"
)

func TestMemory(t *testing.T) {
	available, known := AvailableMemory(os.DirFS("/"))
	if !known || available < 1<<20 {
		t.Fatalf("available memory is %d, %v", available, known)
	}
	if err := CheckMemory(1<<10, 2, 4); err != nil {
		t.Error(err)
	}
	if err := CheckMemory(available, 1, 2); exit.Code(err) != exit.Usage {
		t.Errorf("twice what there is: %v", err)
	}
	if err := CheckMemory(1<<62, 2, 250); exit.Code(err) != exit.Usage {
		t.Errorf("a product beyond 64 bits: %v", err)
	}
}

func TestRoughSize(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 bytes", 1023: "1023 bytes", 1536: "1.5 KiB", 3 << 20: "3.0 MiB", 23 << 30: "23.0 GiB"} {
		if got := roughSize(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
