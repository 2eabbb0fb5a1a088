package doctor

import (
	"slices"
	"strings"
)

// savedChains reads the table filter of what iptables-save prints (iptables-save(8)), into what nft
// would call its chains.
func savedChains(program, text string) (list []*chain) {
	family := "ip"
	if strings.HasPrefix(program, "ip6") {
		family = "ip6"
	}
	named := func(name string) string { return family + " filter " + name }
	table := ""
	for line := range strings.Lines(text) {
		f := tokens.FindAllString(line, -1)
		switch {
		case len(f) == 0:
		case strings.HasPrefix(f[0], "*"):
			table = f[0]
		case table != "*filter":
		case strings.HasPrefix(f[0], ":") && len(f) > 1:
			name := f[0][1:]
			list = append(list, &chain{name: named(name), input: name == "INPUT", policy: strings.ToLower(f[1]), program: program})
		case f[0] == "-A" && len(f) > 1:
			if i := slices.IndexFunc(list, func(c *chain) bool { return c.name == named(f[1]) }); i >= 0 {
				list[i].rules = append(list[i].rules, savedRule(f[2:]))
			}
		}
	}
	return list
}

// savedRule reads a rule of iptables.
func savedRule(f []string) rule {
	r := rule{text: strings.Join(f, " ")}
	not := false // a ! stands before the option
	for len(f) > 0 {
		option, value := f[0], ""
		if f = f[1:]; option == "!" {
			not = true
			continue
		}
		if len(f) > 0 && !strings.HasPrefix(f[0], "-") && f[0] != "!" {
			value, f = f[0], f[1:]
		}
		switch option {
		case "-p":
			if r.protocols = []string{value}; not {
				r.protocols, r.others = nil, true
			}
		case "--dport", "--dports":
			r.ports, r.not = strings.ReplaceAll(value, ":", "-"), not
		case "--ctstate", "--state": // a connection begins with a packet of state NEW
			r.others = r.others || slices.Contains(strings.Split(value, ","), "NEW") == not
		case "-m", "--comment", "--reject-with", "--log-prefix", "--log-level":
		case "-j", "-g":
			switch target := value; target {
			case "ACCEPT", "RETURN":
				r.verdict = strings.ToLower(target)
			case "DROP", "REJECT":
				r.verdict = "drop"
			case "LOG", "NFLOG", "MARK", "CONNMARK", "TRACE": // the next rule is looked at
			default:
				r.verdict, r.target = map[string]string{"-j": "jump", "-g": "goto"}[option], target
			}
		default: // also a match of module statistic, limit or recent, which is not of all packets
			r.others = true
		}
		not = false
	}
	return r
}
