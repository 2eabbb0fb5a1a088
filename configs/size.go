package configs

import (
	"fmt"
	"math"
	"math/bits"
	"regexp"
	"strconv"
	"strings"
)

// sizeUnits are powers of 1024, as in nccl-tests and perftest.
var sizeUnits = []struct {
	letter byte
	bytes  uint64
}{
	{'G', 1 << 30},
	{'M', 1 << 20},
	{'K', 1 << 10},
}

// ParseSize reads a number of bytes: digits, then optionally K, M or G
// (times 1024, 1024² or 1024³), then optionally B or iB, in any case. Signs,
// fractions and what does not fit 64 bits are errors that wrap ErrInvalid.
func ParseSize(text string) (uint64, error) {
	parts := sizeSyntax.FindStringSubmatch(strings.ToUpper(strings.TrimSpace(text)))
	if parts == nil {
		return 0, fmt.Errorf("%w: size %q: expected a whole number of bytes, optionally with K, M or G (1024-based), such as 64K or 1MiB", ErrInvalid, text)
	}
	unit := uint64(1)
	for _, u := range sizeUnits {
		if parts[2] == string(u.letter) {
			unit = u.bytes
		}
	}
	n, err := strconv.ParseUint(parts[1], 10, 64)
	high, size := bits.Mul64(n, unit)
	if err != nil || high != 0 {
		return 0, fmt.Errorf("%w: size %q is above the greatest possible, %d bytes", ErrInvalid, text, uint64(math.MaxUint64))
	}
	return size, nil
}

var sizeSyntax = regexp.MustCompile(`^([0-9]+)(?:([KMG])(?:I?B)?|B?)$`)

// FormatSize writes a number of bytes in the greatest unit that divides it, so
// that ParseSize reads the same number back: 262144 is 256K, 1000 is 1000.
func FormatSize(size uint64) string {
	for _, u := range sizeUnits {
		if size != 0 && size%u.bytes == 0 {
			return strconv.FormatUint(size/u.bytes, 10) + string(u.letter)
		}
	}
	return strconv.FormatUint(size, 10)
}

// SizeValue is a pflag.Value for a number of bytes:
//
//	size := configs.SizeValue(1 << 20)
//	flags.Var(&size, "size", "bytes of the whole vector")
type SizeValue uint64

// String returns the size as FormatSize does.
func (s *SizeValue) String() string { return FormatSize(uint64(*s)) }

// Set takes what ParseSize takes.
func (s *SizeValue) Set(text string) error {
	size, err := ParseSize(text)
	if err != nil {
		return err
	}
	*s = SizeValue(size)
	return nil
}

// Type names the value in a flag's usage.
func (s *SizeValue) Type() string { return "size" }
