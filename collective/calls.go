package collective

import (
	"ringcli/collective/plan"
)

// The vocabulary of calls, which package plan has.
type (
	Operation   = plan.Operation
	Algorithm   = plan.Algorithm
	Protocol    = plan.Protocol
	Call        = plan.Call
	CallOptions = plan.CallOptions
	Table       = plan.Table
	Rule        = plan.Rule
	Range       = plan.Range
	Shape       = plan.Shape
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

const (
	DefaultDepth = plan.DefaultDepth
	MaxDepth     = plan.MaxDepth
	NotVerified  = plan.NotVerified
)

// Operations returns the operations on vectors: all but the barrier.
func Operations() []Operation { return plan.Operations() }

// AllOperations are those, and then the barrier.
func AllOperations() []Operation { return plan.AllOperations() }

// Algorithms returns the algorithms that can be asked for, AlgorithmAuto first.
func Algorithms() []Algorithm { return plan.Algorithms() }

// Protocols returns the protocols that can be asked for, Auto first.
func Protocols() []Protocol { return plan.Protocols() }

// ParseOperation returns the operation of that name or alias, in any case.
func ParseOperation(name string) (Operation, error) { return plan.ParseOperation(name) }

// ParseAlgorithm returns the algorithm of that name or alias, in any case; of none it is AlgorithmAuto.
func ParseAlgorithm(name string) (Algorithm, error) { return plan.ParseAlgorithm(name) }

// ParseProtocol returns the protocol of that name or alias, in any case; of none it is Auto.
func ParseProtocol(name string) (Protocol, error) { return plan.ParseProtocol(name) }
