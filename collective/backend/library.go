package backend

import (
	"fmt"
	"sync"

	"ringcli/verbs/memory"
)

// library is libnccl or librccl: the addresses of its functions.
type library struct {
	soname, path string

	getVersion uintptr
}

// symbol is a function of a library.
type symbol struct {
	fn   *uintptr
	name string
}

// symbols are those that a library must have.
func (l *library) symbols() []symbol {
	return []symbol{
		{&l.getVersion, "ncclGetVersion"},
	}
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
