package links

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
)

// rate is a bandwidth in bytes a second.
type rate float64

var rateSyntax = regexp.MustCompile(`^([0-9]*\.?[0-9]+)\s*((?:[kKMGT]i?)?)(B|b|bit)(?:/s|ps)$`)

// parseRate reads a bandwidth, which has its unit: bytes and bits are eight apart.
func parseRate(text string) (rate, error) {
	const expected = "expected a bandwidth above zero with its unit, such as 48GB/s (1e9 bytes) or 400Gb/s (1e9 bits)"
	parts := rateSyntax.FindStringSubmatch(strings.TrimSpace(text))
	if parts == nil {
		return 0, errors.New(expected)
	}
	v, err := strconv.ParseFloat(parts[1], 64)
	if err != nil {
		return 0, errors.New(expected)
	}
	base := 1000.0
	prefix, binary := strings.CutSuffix(strings.ToUpper(parts[2]), "I")
	if binary {
		base = 1024
	}
	v *= math.Pow(base, float64(strings.Index(" KMGT", prefix))*min(1, float64(len(prefix))))
	if parts[3] != "B" {
		v /= 8
	}
	if !(v > 0) || v > 1e18 {
		return 0, errors.New(expected)
	}
	return rate(v), nil
}

// String is the rate in a unit of a thousandth, a million or ... bytes a second.
func (r rate) String() string {
	units, v := []string{"B/s", "kB/s", "MB/s", "GB/s"}, float64(r)
	unit := 0
	for ; v >= 1000 && unit+1 < len(units); unit++ {
		v /= 1000
	}
	return strconv.FormatFloat(v, 'g', 4, 64) + units[unit]
}

// perByte is the time of a byte in seconds; of no rate, none.
func (r rate) perByte() float64 {
	if r == 0 {
		return 0
	}
	return 1 / float64(r)
}

// rateFlag declares a flag of a bandwidth; 0 is no default.
func rateFlag(fs *pflag.FlagSet, name string, standard rate, usage string) {
	p := &command.Parsed[rate]{Kind: "rate", Parse: parseRate}
	if standard > 0 {
		p.Value = &standard
	}
	fs.Var(p, name, usage)
	command.Completes(fs, name, "nothing")
}
