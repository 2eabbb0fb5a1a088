//go:build !amd64

package wire

func foldLong(r uint32, p []byte) (uint32, []byte) { return r, p }
