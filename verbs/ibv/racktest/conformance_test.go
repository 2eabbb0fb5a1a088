package racktest

import (
	"strings"
	"testing"
	"time"
)

// suiteDeadline is for one run of the conformance suite, which takes 20 s on a
// machine that has little else to do.
const suiteDeadline = 3 * time.Minute

// suite runs tests that were built for it, in machine k, and logs what they print:
// the name of each.
func suite(t *testing.T, k int, args ...string) {
	t.Helper()
	out, err := tryVM(t, suiteDeadline, k, args...)
	t.Log("\n" + out)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "\n--- PASS: ") || strings.Contains(out, "\n--- SKIP: ") {
		t.Error("no test passed, or one was skipped")
	}
}

// The verbs' conformance suite on the kernel's device, through libibverbs, and that
// posting and polling allocate nothing, and what is used while it is closed.
func TestConformance(t *testing.T) {
	suite(t, 1, testBinary(t, product, "./verbs/ibv"), "-test.v", "-test.run", "^Test(Conformance|Allocations|UseWhileClosing|CloseWakesWaiters)$")
}
