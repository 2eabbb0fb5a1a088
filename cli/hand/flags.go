package hand

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/ring"
	"ringcli/verbs"
)

func psnFlag(fs *pflag.FlagSet, usage string) {
	command.OptionalFlag[uint32](fs, "psn", 0, 1<<24-1, usage)
}

var sides = []ring.Side{ring.Left, ring.Right}

func parseSide(text string) (ring.Side, error) {
	for _, s := range sides {
		if s.String() == text {
			return s, nil
		}
	}
	return 0, fmt.Errorf("expected left or right")
}

func sideFlag(fs *pflag.FlagSet) {
	command.ChoiceFlag(fs, "side", "side", nil, sides, parseSide, "one edge alone: left or right (both)")
}

// gidFlag is a GID, or an IP address, which is one too.
func gidFlag(fs *pflag.FlagSet, name, usage string) {
	fs.Var(&command.Parsed[verbs.GID]{Kind: "gid", Parse: func(text string) (g verbs.GID, err error) {
		if err := g.UnmarshalText([]byte(strings.TrimSpace(text))); err != nil {
			return g, fmt.Errorf("expected a GID, such as fe80::1 or ::ffff:10.0.0.1")
		}
		return g, nil
	}}, name, usage)
}

var rightNames = []struct {
	name  string
	right verbs.Access
}{
	{"remote-write", verbs.AccessRemoteWrite}, {"remote-read", verbs.AccessRemoteRead}, {"remote-atomic", verbs.AccessRemoteAtomic},
}

func rightsText(access verbs.Access) string {
	var list []string
	for _, n := range rightNames {
		if access&n.right != 0 {
			list = append(list, n.name)
		}
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ",")
}

// rightsFlag is what a peer or a region's user may do.
func rightsFlag(fs *pflag.FlagSet, name, usage string) {
	words := []string{"none"}
	for _, n := range rightNames {
		words = append(words, n.name)
	}
	fs.Var(&command.Parsed[verbs.Access]{Kind: "list", Completions: words, Text: rightsText, Parse: func(text string) (verbs.Access, error) {
		access := verbs.AccessLocalWrite
		for word := range strings.SplitSeq(text, ",") {
			at := slices.Index(words, strings.TrimSpace(word))
			if at < 0 {
				return 0, fmt.Errorf("expected remote-write, remote-read, remote-atomic, or none")
			}
			if at > 0 {
				access |= rightNames[at-1].right
			}
		}
		return access, nil
	}}, name, usage)
}

// sideOf reads the argument left or right, if there is one.
func sideOf(args []string) (*ring.Side, error) {
	if len(args) == 0 {
		return nil, nil
	}
	v, err := parseSide(args[0])
	if err != nil || len(args) > 1 {
		return nil, exit.Usagef("%q: expected left or right, or nothing for both", strings.Join(args, " "))
	}
	return &v, nil
}

func checkSide(args []string) error {
	_, err := sideOf(args)
	return err
}
