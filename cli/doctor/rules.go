package doctor

import (
	"regexp"
	"slices"
	"strings"
)

// chain is one of nftables, as nft(8) lists it.
type chain struct {
	name   string // "inet filter input"
	input  bool   // packets for this node begin here
	policy string
	rules  []rule
}

// rule is what a rule says of the ports. What else it asks for, as of an address or a state, is not
// read: that it does is known.
type rule struct {
	text            string
	protocols       []string          // none: of any
	ports           string            // as in 22,80-90; "": of any
	not             bool              // of all but these ports
	verdicts        map[string]string // by ports, of a vmap
	others          bool              // it asks for something else, too
	verdict, target string
}

// tokens are words; a set and a text in quotes are one.
var tokens = regexp.MustCompile(`"[^"]*"|\{[^}]*\}|[^\s;]+`)

// chains reads what `nft list ruleset` prints.
func chains(ruleset string) (list []*chain) {
	table, family := "", ""
	var c *chain
	for line := range strings.Lines(ruleset) {
		f := tokens.FindAllString(line, -1)
		switch {
		case len(f) == 0:
		case f[0] == "table" && len(f) > 2:
			family, table, c = f[1], f[1]+" "+f[2], nil
		case f[0] == "}":
			c = nil
		case f[0] == "chain" && len(f) > 1 && slices.Contains([]string{"ip", "ip6", "inet"}, family):
			c = &chain{name: table + " " + f[1]}
			list = append(list, c)
		case c == nil:
		case f[0] == "type" && slices.Contains(f, "hook"):
			c.input = after(f, "hook") == "input"
			c.policy = after(f, "policy")
		default:
			c.rules = append(c.rules, parseRule(f))
		}
	}
	return list
}

// after is the word after another.
func after(f []string, word string) string {
	if i := slices.Index(f, word); i >= 0 && i+1 < len(f) {
		return f[i+1]
	}
	return ""
}

// listed writes the elements of a set, or what stands for itself, with commas between.
func listed(operand string) string {
	return strings.ReplaceAll(strings.Trim(operand, "{} "), " ", "")
}

func parseRule(f []string) rule {
	r := rule{text: strings.Join(f, " ")}
	next := func() (word string) {
		if len(f) > 0 {
			word, f = f[0], f[1:]
		}
		return word
	}
	skip := func(first string, words int) {
		if len(f) > 0 && f[0] == first {
			f = f[min(words, len(f)):]
		}
	}
	protocol := func() {
		if o := next(); o == "!=" {
			next()
			r.others = true
		} else {
			r.protocols = strings.Split(listed(o), ",")
		}
	}
	for len(f) > 0 {
		switch word := next(); word {
		case "accept", "drop", "return":
			r.verdict = word
		case "reject":
			r.verdict = "drop"
			f = nil // with what, is left
		case "jump", "goto":
			r.verdict, r.target = word, next()
		case "counter":
			skip("packets", 4)
			skip("name", 2)
		case "comment":
			next()
		case "log":
			for _, option := range []string{"prefix", "group", "snaplen", "queue-threshold", "level", "flags"} {
				skip(option, 2)
			}
		case "tcp", "udp", "th":
			if word != "th" {
				r.protocols = []string{word}
			}
			if len(f) == 0 || f[0] != "dport" {
				r.others = true
				continue
			}
			next()
			o := next()
			if r.not = o == "!="; r.not {
				o = next()
			}
			if r.ports = listed(o); o == "vmap" {
				r.verdicts, r.ports = map[string]string{}, ""
				for element := range strings.SplitSeq(listed(next()), ",") {
					ports, verdict, _ := strings.Cut(element, ":")
					r.verdicts[ports] = verdict
				}
			}
		case "ct":
			// A connection begins with a packet of state new.
			if len(f) > 1 && f[0] == "state" && slices.Contains(strings.Split(listed(f[1]), ","), "new") {
				f = f[2:]
				continue
			}
			r.others = true
		case "meta", "ip", "ip6":
			if len(f) > 0 && (f[0] == "l4proto" || f[0] == "protocol" || f[0] == "nexthdr") {
				next()
				protocol()
				continue
			}
			r.others = true
		default:
			r.others = true
		}
	}
	return r
}

// on is the rule's verdict on packets to a port; named: it is about the port, and not about any.
func (r *rule) on(protocol string, port int) (verdict string, named bool) {
	if r.protocols != nil && !slices.Contains(r.protocols, protocol) {
		return "", false
	}
	for ports, verdict := range r.verdicts {
		if inRanges(ports, port) {
			return verdict, true
		}
	}
	if r.verdicts != nil || r.ports != "" && inRanges(r.ports, port) == r.not {
		return "", false
	}
	return r.verdict, r.ports != ""
}

// ruling is what chains do with packets to a port.
type ruling struct {
	verdict string // accept, drop, or "": nothing decides
	rule    string // that is about the port and decides
}

// mostJumps is how many calls deep nftables goes (NFT_JUMP_STACK_SIZE of linux/netfilter/nf_tables.h).
const mostJumps = 16

// rules gives the ruling of a chain. A rule that names the port and accepts decides, whomever else
// it asks for: whom it lets in is its business. Any other decides only if it asks for nothing else.
// If it lets some return, a later drop is not for all, and does not decide.
func rules(list []*chain, c *chain, protocol string, port, jumps int) ruling {
	some := false // have returned
	ends := func(r ruling) ruling {
		if some && r.verdict == "drop" {
			return ruling{}
		}
		return r
	}
	for _, r := range c.rules {
		verdict, named := r.on(protocol, port)
		text := ""
		if named {
			text = r.text
		}
		all := !r.others
		switch {
		case verdict == "return" && all:
			return ruling{}
		case verdict == "return":
			some = true
		case verdict == "accept" && (all || named), verdict == "drop" && all:
			return ends(ruling{verdict, text})
		case verdict == "jump" || verdict == "goto":
			table := c.name[:strings.LastIndex(c.name, " ")+1]
			i := slices.IndexFunc(list, func(c *chain) bool { return c.name == table+r.target })
			if i < 0 || jumps == mostJumps {
				continue
			}
			there := rules(list, list[i], protocol, port, jumps+1)
			if there.rule == "" {
				there.rule = text
			}
			if all && (there.verdict != "" || verdict == "goto") || there.verdict == "accept" && there.rule != "" {
				return ends(there)
			}
			some = some || verdict == "goto" && there.verdict == ""
		}
	}
	return ruling{}
}
