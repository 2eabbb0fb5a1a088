package bootstrap

import "ringcli/ring/bootstrap/verdict"

// A Verdict is why the ring failed, as every rank is told; package verdict says more.
type (
	Verdict    = verdict.Verdict
	Kind       = verdict.Kind
	Confidence = verdict.Confidence
	Direction  = verdict.Direction
	Doing      = verdict.Doing
	Group      = verdict.Group
)

// The kinds of verdicts, and how sure they are.
const (
	KindLost      = verdict.KindLost
	KindSilent    = verdict.KindSilent
	KindStopped   = verdict.KindStopped
	KindIsolated  = verdict.KindIsolated
	KindEdge      = verdict.KindEdge
	KindLeft      = verdict.KindLeft
	KindCorrupt   = verdict.KindCorrupt
	KindMismatch  = verdict.KindMismatch
	KindTimeout   = verdict.KindTimeout
	KindFailed    = verdict.KindFailed
	KindCanceled  = verdict.KindCanceled
	KindRegrouped = verdict.KindRegrouped

	Certain = verdict.Certain
	Suspect = verdict.Suspect
)
