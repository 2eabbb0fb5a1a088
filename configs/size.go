package configs

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// sizeUnits are powers of 1024, as in nccl-tests and perftest.
const sizeUnits = " KMG"

// ParseSize reads a number of bytes: digits, then optionally K, M or G
// (times 1024, 1024² or 1024³), then optionally B or iB, in any case. Signs,
// fractions and what does not fit 64 bits are errors that wrap ErrInvalid.
func ParseSize(text string) (uint64, error) {
	parts := sizeSyntax.FindStringSubmatch(strings.ToUpper(strings.TrimSpace(text)))
	if parts == nil {
		return 0, fmt.Errorf("%w: size %q: expected a whole number of bytes, optionally with K, M or G (1024-based), such as 64K or 1MiB", ErrInvalid, text)
	}
	n, err := strconv.ParseUint(parts[1], 10, 64)
	shift := 10 * strings.Index(sizeUnits, parts[2]) // no letter is at 0
	if err != nil || n > math.MaxUint64>>shift {
		return 0, fmt.Errorf("%w: size %q is above the greatest possible, %d bytes", ErrInvalid, text, uint64(math.MaxUint64))
	}
	return n << shift, nil
}

var sizeSyntax = regexp.MustCompile(`^([0-9]+)(?:([KMG])(?:I?B)?|B?)$`)

// FormatSize writes a number of bytes in the greatest unit that divides it, so
// that ParseSize reads the same number back: 262144 is 256K, 1000 is 1000.
func FormatSize(size uint64) string {
	unit := 0
	for ; size != 0 && size%1024 == 0 && unit+1 < len(sizeUnits); unit++ {
		size /= 1024
	}
	return strings.TrimSpace(strconv.FormatUint(size, 10) + sizeUnits[unit:unit+1])
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
