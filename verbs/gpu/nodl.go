//go:build nodl

package gpu

// library is what cannot be loaded.
type library struct{ path string }

func openLibrary(name string) (*library, error) {
	return nil, errStatic
}

func (l *library) find(string) uintptr { return 0 }

func invoke(uintptr, ...uintptr) uintptr { panic("no library has been loaded") }
