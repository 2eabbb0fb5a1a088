//go:build !nodl

package launch

// UsePMIx has these functions be libpmix's, until the function that it returns is called.
func UsePMIx(start, get, finalize, describe uintptr) (restore func()) {
	before := loadPMIx
	loadPMIx = func() (*pmixLibrary, error) {
		return &pmixLibrary{init: start, get: get, finalize: finalize, describe: describe}, nil
	}
	return func() { loadPMIx = before }
}
