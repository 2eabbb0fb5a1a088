package collective

import "ringcli/collective/plan"

// What a call and a table are made of. Package plan has more, such as lists of all values and parsers
// of their names.
type (
	Operation   = plan.Operation
	Algorithm   = plan.Algorithm
	Protocol    = plan.Protocol
	Call        = plan.Call
	CallOptions = plan.CallOptions
	Table       = plan.Table
	Rule        = plan.Rule
)

const (
	OpAllReduce     = plan.OpAllReduce
	OpReduceScatter = plan.OpReduceScatter
	OpAllGather     = plan.OpAllGather
	OpBarrier       = plan.OpBarrier
	OpBroadcast     = plan.OpBroadcast
	OpReduce        = plan.OpReduce

	AlgorithmAuto              = plan.AlgorithmAuto
	AlgorithmRing              = plan.AlgorithmRing
	AlgorithmRecursiveDoubling = plan.AlgorithmRecursiveDoubling
	AlgorithmTree              = plan.AlgorithmTree
	AlgorithmInbox             = plan.AlgorithmInbox
	AlgorithmHierarchical      = plan.AlgorithmHierarchical

	Auto              = plan.Auto
	Eager             = plan.Eager
	RendezvousWrite   = plan.RendezvousWrite
	RendezvousRead    = plan.RendezvousRead
	Direct            = plan.Direct
	ReceiverInitiated = plan.ReceiverInitiated
)
