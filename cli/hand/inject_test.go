package hand

import (
	"strings"
	"testing"
	"time"

	"ringcli/cli/exit"
)

func TestParseHarm(t *testing.T) {
	for text, want := range map[string]harm{
		"off":                        {rank: -1, to: -1, faults: "off"},
		"soft: loss 1% to 2":         {rank: -1, to: -1},
		"kill 2":                     {do: "kill", rank: 2, to: -1},
		"stop 0":                     {do: "stop", rank: 0, to: -1, time: 10 * time.Second},
		"stop 0 250ms":               {do: "stop", rank: 0, to: -1, time: 250 * time.Millisecond},
		"delay 1 5ms":                {do: "delay", rank: 1, to: -1, time: 5 * time.Millisecond},
		"delay 1 0s":                 {do: "delay", rank: 1, to: -1},
		"cut 1 2s":                   {do: "cut", rank: 1, to: -1, time: 2 * time.Second},
		"cut 1 to 3 2s":              {do: "cut", rank: 1, to: 3, time: 2 * time.Second},
		"soft: down at 0s for 2s in": {rank: -1, to: -1},
	} {
		want.faults = text
		if got, err := parseHarm(strings.Fields(text)); err != nil || got != want {
			t.Errorf("%q: %+v, %v: expected %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "nothing given", "kill": "no rank is given", "kill x": "is no rank", "kill -1": "is no rank", "kill 1 2s": "more than that",
		"stop 1 x": "is no time", "stop 1 0s": "is no time", "stop 1 -2s": "is no time", "delay 1": "no time is given", "cut 1": "no time is given",
		"cut 1 to 2": "no time is given", "cut 1 to x 2s": "is no rank", "murder 1": "or kill, stop, delay", "soft: lose": "expected loss",
	} {
		if _, err := parseHarm(strings.Fields(text)); exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v: expected %q", text, err, want)
		}
	}
}
