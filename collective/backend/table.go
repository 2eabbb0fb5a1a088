package backend

import (
	"ringcli/collective/reduce"
	"ringcli/configs/usage"
)

// numbered is a type or an operation as a library counts it, and since which version of
// NCCL: RCCL's own began later.
type numbered struct{ value, since int }

// dataTypes is ncclDataType_t of nccl.h.
var dataTypes = map[reduce.Type]numbered{
	reduce.Int8: {0, 0}, reduce.Uint8: {1, 0}, reduce.Int32: {2, 0}, reduce.Uint32: {3, 0}, reduce.Int64: {4, 0}, reduce.Uint64: {5, 0},
	reduce.Float16: {6, 0}, reduce.Float32: {7, 0}, reduce.Float64: {8, 0}, reduce.BFloat16: {9, 21000},
}

// redOps is ncclRedOp_t of nccl.h.
var redOps = map[reduce.Op]numbered{
	reduce.Sum: {0, 0}, reduce.Prod: {1, 0}, reduce.Max: {2, 0}, reduce.Min: {3, 0}, reduce.Avg: {4, 21000},
}

// numberOf looks a name up in a table, and refuses what a library has not.
func numberOf[T interface {
	comparable
	String() string
}](table map[T]numbered, what string, t T, name string, version int) (int, error) {
	n, has := table[t]
	switch {
	case !has:
		return 0, usage.Errorf("%s has no %s %s", name, what, t)
	case version < n.since:
		return 0, usage.Errorf("%s %s has no %s %s: expected %s or later", name, formatVersion(version), what, t, formatVersion(n.since))
	}
	return n.value, nil
}
