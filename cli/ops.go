package cli

// The operations, as commands and as JSON name them.
const (
	opAllReduce     = "all-reduce"
	opReduceScatter = "reduce-scatter"
	opAllGather     = "all-gather"
)
