//go:build nodl

package buffers

import "errors"

func alignedAlloc(uint64) (addr uint64, free func() error, err error) {
	return 0, nil, errors.New("this program was built static (tag nodl), without the C library: expected the build that `make` makes")
}
