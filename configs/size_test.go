package configs

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]uint64{
		"0":                    0,
		"1":                    1,
		"1B":                   1,
		" 64K ":                64 << 10,
		"64k":                  64 << 10,
		"64KB":                 64 << 10,
		"64KiB":                64 << 10,
		"1m":                   1 << 20,
		"3MiB":                 3 << 20,
		"2G":                   2 << 30,
		"0G":                   0,
		"007K":                 7 << 10,
		"17179869183G":         17179869183 << 30,
		"18446744073709551615": math.MaxUint64,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%q: got %d, %v, want %d", text, got, err, want)
		}
	}
}

func TestParseSizeRefuses(t *testing.T) {
	for _, text := range []string{
		"", " ", "K", "B", "-1", "-1K", "+1", "1.5M", "1e6", "0x10", "1 K", "1KK", "1KBB",
		"1iB", "1Ki", "1T", "K1", "12abc", "１", "1_000", "1\x00",
		"18446744073709551616", "17179869184G", "99999999999999999999G",
	} {
		got, err := ParseSize(text)
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: got %d, %v, want an error", text, got, err)
		} else if !strings.Contains(err.Error(), `size "`) {
			t.Errorf("%q: the error does not say what was given: %v", text, err)
		}
	}
}

func TestFormatSizeReadsBack(t *testing.T) {
	for size, want := range map[uint64]string{
		0: "0", 1: "1", 1000: "1000", 1024: "1K", 1536: "1536", 256 << 10: "256K",
		1 << 20: "1M", 1536 << 10: "1536K", 1 << 30: "1G", 1 << 40: "1024G",
		math.MaxUint64: "18446744073709551615",
	} {
		text := FormatSize(size)
		if text != want {
			t.Errorf("%d: got %q, want %q", size, text, want)
		}
		if back, err := ParseSize(text); err != nil || back != size {
			t.Errorf("%q reads back as %d, %v", text, back, err)
		}
	}
}

func TestSizeFlag(t *testing.T) {
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.Usage = func() {}
	size := SizeValue(1 << 20)
	flags.Var(&size, "size", "bytes of the whole vector")
	if usage := flags.FlagUsages(); !strings.Contains(usage, "--size size") || !strings.Contains(usage, "(default 1M)") {
		t.Errorf("usage reads %q", usage)
	}
	if err := flags.Parse([]string{"--size", "4KiB"}); err != nil || size != 4096 {
		t.Errorf("size is %d, %v", size, err)
	}
	if err := flags.Parse([]string{"--size", "big"}); err == nil || !strings.Contains(err.Error(), `"big"`) || size != 4096 {
		t.Errorf("got %v, and the size is now %d", err, size)
	}
}
