package session

import (
	"testing"
	"time"
)

// A visit that comes while a pause goes on waits for the next boundary, or the pause
// would have no end.
func TestVisitsBeginAtABoundary(t *testing.T) {
	var v Visits
	if v.Wanted() || v.Serve(t.Context(), true, time.Hour) {
		t.Error("nobody knocked")
	}
	in, leave := v.Knock()
	if !v.Wanted() || !v.Serve(t.Context(), true, time.Millisecond) {
		t.Error("a visit has begun: expected it to go on")
	}
	<-in
	later, givenUp := v.Knock()
	leave()
	if v.Serve(t.Context(), false, time.Hour) {
		t.Error("the visit is over: expected the pause to end")
	}
	select {
	case <-later:
		t.Error("a visit has begun in another's pause")
	default:
	}
	givenUp()
	givenUp()
	if v.Wanted() {
		t.Error("a visit that was given up is wanted")
	}
	if (*Visits)(nil).Wanted() {
		t.Error("a process without a shell has visits")
	}
}
