package cli

import (
	"slices"
	"strings"
)

// singleDash are the long options that the C programs before this one spell
// with a single dash, and their names here.
var singleDash = map[string]string{"-myindex": "--index", "--myindex": "--index", "-index": "--index", "-list": "--list"}

// listAlone are the commands whose only words are those of the list.
var listAlone = []string{"connect", "shell", "tune"}

// rewriteArgs makes `-myindex 0 -list a b` what pflag understands, which would
// take it for the short options -m -y and so on. In place of a command these two
// mean `connect`, as the C test program does. What follows "--" is left alone.
func rewriteArgs(args []string) []string {
	out := make([]string, 0, len(args)+1)
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			out = append(out, args[i:]...)
			break
		}
		name, value, joined := strings.Cut(args[i], "=")
		long, ok := singleDash[name]
		if !ok {
			out = append(out, args[i])
			continue
		}
		if joined {
			long += "=" + value
		}
		if out = append(out, long); name != "-list" || joined || !strings.HasPrefix(out[0], "--") && !slices.Contains(listAlone, out[0]) {
			continue
		}
		var hosts []string // to the next option: the C test program's list is all that is left
		for ; i+1 < len(args) && !strings.HasPrefix(args[i+1], "-"); i++ {
			if last := len(hosts) - 1; last >= 0 { // "a, b" as well; what is empty stays, and is refused
				hosts[last] = strings.TrimSuffix(hosts[last], ",")
			}
			hosts = append(hosts, args[i+1])
		}
		if hosts != nil {
			out = append(out, strings.Join(hosts, ","))
		}
	}
	if len(out) > 0 && (strings.HasPrefix(out[0], "--index") || strings.HasPrefix(out[0], "--list")) {
		out = slices.Insert(out, 0, "connect")
	}
	return out
}

// givenValue finds the value of a long option in arguments that could not be
// parsed, so that even the error about them has the format asked for.
func givenValue(args []string, option string) string {
	for i, arg := range args {
		switch {
		case arg == "--":
			return ""
		case strings.HasPrefix(arg, option+"="):
			return strings.TrimPrefix(arg, option+"=")
		case arg == option && i+1 < len(args):
			return args[i+1]
		}
	}
	return ""
}
