//go:build nodl

package backend

import "errors"

var errStatic = errors.New("this program was built static (tag nodl), and loads no library: vendors' back ends need the build that `make` makes")

func (l *library) open() error { return errStatic }

func call(uintptr, ...uintptr) uintptr { panic(errStatic) }

func setenv(string, string) error { return nil }
