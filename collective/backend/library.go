package backend

import (
	"fmt"
	"runtime"
	"slices"
	"sync"

	"ringcli/verbs/memory"
)

// library is libnccl or librccl: the addresses of its functions.
type library struct {
	soname, path string

	getVersion, getErrorString, getLastError, getUniqueID                  uintptr
	commInitRank, commInitRankConfig, commFinalize, commDestroy, commAbort uintptr
	commGetAsyncError, groupStart, groupEnd                                uintptr
	allReduce, reduceScatter, allGather, broadcast, reduce                 uintptr
}

// symbol is a function of a library.
type symbol struct {
	fn       *uintptr
	name     string
	optional bool
}

// symbols are those that a library must have, and those that came later.
func (l *library) symbols() []symbol {
	return []symbol{
		{&l.getVersion, "ncclGetVersion", false},
		{&l.getErrorString, "ncclGetErrorString", false},
		{&l.getLastError, "ncclGetLastError", true}, // 2.13
		{&l.getUniqueID, "ncclGetUniqueId", false},
		{&l.commInitRank, "ncclCommInitRank", false},
		{&l.commInitRankConfig, "ncclCommInitRankConfig", true}, // 2.14
		{&l.commFinalize, "ncclCommFinalize", true},             // 2.14
		{&l.commDestroy, "ncclCommDestroy", false},
		{&l.commAbort, "ncclCommAbort", false},
		{&l.commGetAsyncError, "ncclCommGetAsyncError", false},
		{&l.groupStart, "ncclGroupStart", false},
		{&l.groupEnd, "ncclGroupEnd", false},
		{&l.allReduce, "ncclAllReduce", false},
		{&l.reduceScatter, "ncclReduceScatter", false},
		{&l.allGather, "ncclAllGather", false},
		{&l.broadcast, "ncclBroadcast", false},
		{&l.reduce, "ncclReduce", false},
	}
}

// byValue are the arguments of a function that takes a struct by value, between those before
// and after it: of n bytes, more than two words, as at an address. On amd64 a
// copy lies on the stack behind the arguments in registers, wherever it stands among them
// (System V ABI, 3.2.3, class MEMORY); on arm64 the address of a copy takes its place
// (AAPCS64, 6.8.2, B.4).
func byValue(before []uintptr, at uintptr, n int, after []uintptr) []uintptr {
	if runtime.GOARCH == "arm64" {
		return slices.Concat(before, []uintptr{at}, after)
	}
	const registers = 6
	args := slices.Concat(before, after)
	args = append(args, make([]uintptr, registers-len(args))...)
	for _, word := range memory.Slice[uint64](uint64(at), n/8) {
		args = append(args, uintptr(word))
	}
	return args
}

// loaded has the libraries by their sonames. They stay loaded: their threads run in them.
var loaded sync.Map

// load opens a library once in a process.
func load(soname string) (*library, error) {
	once, _ := loaded.LoadOrStore(soname, sync.OnceValues(func() (*library, error) {
		l := &library{soname: soname}
		if err := l.open(); err != nil {
			return nil, err
		}
		l.path = pathOf(soname)
		return l, nil
	}))
	return once.(func() (*library, error))()
}

// version asks the library for its version, which is NCCL_VERSION_CODE.
func (l *library) version() (int, error) {
	result, err := memory.Alloc(8)
	if err != nil {
		return 0, err
	}
	defer func() { _ = result.Free() }()
	if code := int32(call(l.getVersion, uintptr(result.Addr()))); code != 0 {
		return 0, fmt.Errorf("ncclGetVersion failed with code %d", code)
	}
	return int(memory.Slice[int32](result.Addr(), 1)[0]), nil
}
