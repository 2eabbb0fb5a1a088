package transport

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// mapped is an error unless a range is mapped, readable and writable.
func mapped(what string, addr, length uint64) error {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil //nolint:nilerr // without /proc nobody knows
	}
	defer func() { _ = f.Close() }()
	at, end := addr, addr+length
	for lines := bufio.NewScanner(f); at < end && lines.Scan(); {
		var first, last uint64
		var may string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &first, &last, &may); err != nil || last <= at {
			continue
		}
		if first > at {
			break
		}
		if !strings.HasPrefix(may, "rw") {
			return failed(ErrRegistration, "%s: permission: what is mapped at %#x is %s: map it readable and writable (mmap PROT_READ|PROT_WRITE)", what, at, may)
		}
		at = last
	}
	if at < end {
		return failed(ErrRegistration, "%s: address: nothing is mapped at %#x: give an address and a length that lie in allocated memory", what, at)
	}
	return nil
}
