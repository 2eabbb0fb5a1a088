package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ringcli/trace"
)

// clockSkew is what --clock-skew asks for: a wrong trace clock at some ranks, as
// nodes have, for tests of `trace merge`.
type clockSkew struct{ text string }

func (c *clockSkew) String() string { return c.text }
func (c *clockSkew) Type() string   { return "skew" }
func (c *clockSkew) Set(text string) error {
	for rank := range strings.SplitSeq(text, ",") {
		if _, _, _, err := parseSkew(rank); err != nil {
			return err
		}
	}
	c.text = text
	return nil
}

// parseSkew reads RANK=OFFSET/PPM, such as 1=50ms/200.
func parseSkew(text string) (rank int, offset time.Duration, ppm float64, err error) {
	name, skew, _ := strings.Cut(text, "=")
	by, drift, _ := strings.Cut(skew, "/")
	rank, wrongRank := strconv.Atoi(name)
	offset, wrongOffset := time.ParseDuration(by)
	ppm, wrongDrift := strconv.ParseFloat(drift, 64)
	if wrongRank != nil || wrongOffset != nil || wrongDrift != nil || rank < 0 {
		return 0, 0, 0, fmt.Errorf("expected RANK=OFFSET/PPM, comma separated, such as 1=50ms/200,2=-50ms/-200")
	}
	return rank, offset, ppm, nil
}

func skewFlag(fs *pflag.FlagSet) {
	fs.Var(&clockSkew{}, "clock-skew", "")
	if err := fs.MarkHidden("clock-skew"); err != nil {
		panic("cli: " + err.Error())
	}
}

// skewClock makes this rank's trace clock wrong, if --clock-skew says so.
func skewClock(fs *pflag.FlagSet, own int) {
	text := value[clockSkew](fs, "clock-skew").text
	if text == "" {
		return
	}
	for part := range strings.SplitSeq(text, ",") {
		// It was checked when the flag was set.
		if rank, offset, ppm, err := parseSkew(part); err == nil && rank == own {
			trace.SetSkew(offset, ppm)
		}
	}
}
