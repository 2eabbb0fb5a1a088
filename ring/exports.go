package ring

import (
	"ringcli/ring/bootstrap"
	"ringcli/ring/bootstrap/calls"
	"ringcli/ring/device"
	"ringcli/ring/disagreement"
	"ringcli/ring/edges"
	"ringcli/ring/steps"
)

// The types and constants of packages below that users of a ring need.

// Verdict is the error of a ring that failed, as all its ranks are told.
type Verdict = bootstrap.Verdict

// Direction is from one rank to another over the edge between them.
type Direction = bootstrap.Direction

// Doing is the operation that a rank was in, as a verdict has it.
type Doing = bootstrap.Doing

// Waits are what a process waits for from other ranks.
type Waits = bootstrap.Waits

// History is what a process remembers of the rings that it was in.
type History = bootstrap.History

// State is how far a ring has come.
type State = steps.State

// The states of a ring. From Opened to Error they are what the queue pairs say,
// the one that is behind counting; that the exchange was done and that a ping
// came back is the ring's own knowledge.
const (
	StateNew         = steps.New
	StateOpened      = steps.Opened
	StateInitialised = steps.Initialised
	StateExchanged   = steps.Exchanged
	StateRTR         = steps.RTR
	StateRTS         = steps.RTS
	StateReady       = steps.Ready
	StateError       = steps.Error // a queue pair is in ERR or SQE
	StateFailed      = steps.Failed
	StateClosed      = steps.Closed
)

// StepError is a step out of order; the ring is as it was.
type StepError = steps.OrderError

// Side says on which side of a rank an edge is, and EdgeID which it is.
type (
	Side   = edges.Side
	EdgeID = edges.ID
)

// The sides of a rank in the ring, from left to right of which data flows, and that of
// edges beside the ring's.
const (
	Left  = edges.Left
	Right = edges.Right
	Mesh  = edges.Mesh
)

// firstMesh is the ID of the first edge that Mesh made.
const firstMesh = edges.FirstMesh

// WRKind tells whose completion it is; it stands in the work request's ID.
type WRKind = edges.WRKind

// The kinds of work requests on an edge. Those from WRUser on are the caller's.
const (
	WRRecv    WRKind = 1 // a posted receive buffer; the value is its index
	WRMessage WRKind = 2 // SendMessage; the value is 0, or the number of a ping
	WRUser    WRKind = 16
	WRHand           = WRUser + 64 // posted by hand
)

// WRID packs edge, kind and a 40-bit value into a work request's ID.
func WRID(id EdgeID, k WRKind, value uint64) uint64 { return edges.WRID(id, k, value) }

// ParseWRID unpacks an ID made by WRID.
func ParseWRID(wr uint64) (id EdgeID, k WRKind, value uint64) { return edges.ParseWRID(wr) }

// QPInfo is what one end of an edge tells the other, with connectionData around it in
// Exchange; Values are what an operator gives a step instead of the proper ones.
type (
	QPInfo         = edges.QPInfo
	connectionData = edges.Data
	Values         = edges.Values
)

// What is wrong with an edge, or its device.
type (
	CompletionError = edges.CompletionError
	QueuePairError  = edges.QueuePairError
	DeviceError     = edges.DeviceError
	StallError      = edges.StallError
	CorruptionError = edges.CorruptionError
)

// Called is what some ranks call, or that they do not.
type Called = calls.Called

// DisagreementError says that ranks call different operations. It is an ErrUsage of
// package configs/usage.
type DisagreementError = disagreement.Error

// Purpose is what a control operation, or edges of a mesh, are for.
type Purpose = bootstrap.Purpose

// Device is one that edges are on.
type Device = device.Device

// Registration is memory that is registered on every device of the ring.
type Registration = device.Registration

// BeReady is what ranks do with each other before their first operation.
const BeReady = "be ready for operations"

// SlotHeader is the room for a header before a slot's payload, in bytes.
const SlotHeader = edges.SlotHeader
