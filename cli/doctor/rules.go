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
	// program changes it, where that is not nft: iptables or ip6tables, -legacy perhaps.
	program string
}

// rule is what a rule says of the ports. What else it asks for, as of an address or a state, is not
// read: that it does is known.
type rule struct {
	text      string
	families  []string // ip, ip6; none: of any
	protocols []string // none: of any
	ports     string   // as in 22,80-90; "": of any
	not       bool     // of all but these ports
	keys      []string // of a vmap: family, protocol, port, or "" for what is not read
	entries   []entry  // of a vmap
	others    bool     // it asks for something else, too
	outcome
}

// entry is one of a vmap.
type entry struct {
	values []string // one a key
	outcome
}

// outcome is what becomes of packets.
type outcome struct{ verdict, target string }

// packet is the first that comes to a port.
type packet struct {
	family   string // ip or ip6
	protocol string
	port     int
}

// allPorts stands for ports that are not read, as of a set with a name.
const allPorts = "0-65535"

// tokens are words; a set and a text in quotes are one.
var tokens = regexp.MustCompile(`"[^"]*"|\{[^}]*\}|[^\s;]+`)

// savedBy begins a line before what a program of iptables has printed, and names it.
const savedBy = "# saved by "

// chains reads what `nft list ruleset` prints, and behind lines of savedBy what iptables-save does.
func chains(text string) (list []*chain) {
	parts := strings.Split(text, savedBy)
	ruleset := parts[0]
	for _, saved := range parts[1:] {
		program, rules, _ := strings.Cut(saved, "\n")
		list = append(list, savedChains(strings.TrimSuffix(program, "-save"), rules)...)
	}
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

// ofFamily has the families of `meta protocol` and `meta nfproto` by the names of tables.
var ofFamily = strings.NewReplacer("ipv4", "ip", "ipv6", "ip6")

// entriesOf reads the operand of a vmap.
func entriesOf(operand string) (list []entry) {
	for element := range strings.SplitSeq(strings.Trim(operand, "{} "), ",") {
		key, verdict, _ := strings.Cut(element, " : ")
		var e entry
		for value := range strings.SplitSeq(key, " . ") {
			e.values = append(e.values, strings.TrimSpace(value))
		}
		if f := strings.Fields(verdict); len(f) > 0 {
			e.verdict, e.target = f[0], strings.Join(f[1:], " ")
			list = append(list, e)
		}
	}
	return list
}

func parseRule(f []string) rule {
	r := rule{text: strings.Join(f, " ")}
	peek := func() string {
		if len(f) == 0 {
			return ""
		}
		return f[0]
	}
	next := func() string {
		word := peek()
		f = f[min(1, len(f)):]
		return word
	}
	skip := func(first string, words int) {
		if peek() == first {
			f = f[min(words, len(f)):]
		}
	}
	isKey := false // the word before was of a key that is read
	// key tells whether what was read is one, of a vmap or of several.
	key := func(name string) bool {
		isKey = peek() == "vmap" || peek() == "."
		if isKey {
			r.keys = append(r.keys, name)
		}
		return isKey
	}
	// among is an operand; none if it is one of what is not.
	among := func() []string {
		if o := next(); o != "!=" {
			return strings.Split(listed(o), ",")
		}
		next()
		r.others = true
		return nil
	}
	for len(f) > 0 {
		wasKey := isKey
		isKey = false
		switch word := next(); word {
		case "accept", "drop", "return":
			r.verdict = word
		case "reject":
			r.verdict = "drop"
			f = nil // with what, is left
		case "jump", "goto":
			r.verdict, r.target = word, next()
		case ".", "vmap":
			if !wasKey {
				r.keys = append(r.keys, "")
			}
			if word == "vmap" {
				r.ports, r.entries = "", entriesOf(next())
			}
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
			if peek() != "dport" {
				r.others = true
				continue
			}
			next()
			several := len(r.keys) > 0
			if key("port") {
				if peek() == "." {
					r.ports = allPorts
				}
				continue
			}
			o := next()
			if r.not = o == "!="; r.not {
				o = next()
			}
			if r.ports = listed(o); several || strings.HasPrefix(o, "@") {
				r.ports, r.not, r.others = allPorts, false, true
			}
		case "ct":
			// A connection begins with a packet of state new.
			if len(f) > 1 && f[0] == "state" && slices.Contains(strings.Split(listed(f[1]), ","), "new") {
				f = f[2:]
				continue
			}
			r.others = true
		case "meta", "ip", "ip6":
			switch what := word + " " + peek(); what {
			case "meta protocol", "meta nfproto":
				next()
				if !key("family") {
					r.families = among()
				}
			case "meta l4proto", "ip protocol", "ip6 nexthdr":
				if word != "meta" {
					r.families = []string{word}
				}
				next()
				if !key("protocol") {
					r.protocols = among()
				}
			default:
				r.others = true
			}
		default:
			r.others = true
		}
	}
	return r
}

// has tells whether what a key asks for is so of a packet, and whether that is known.
func (p packet) has(key, value string) (is, known bool) {
	switch key {
	case "family":
		return ofFamily.Replace(value) == p.family, true
	case "protocol":
		return value == p.protocol, true
	case "port":
		return inRanges(value, p.port), true
	}
	return true, false
}

// decision is what a rule does with a packet.
type decision struct {
	outcome
	named bool // the rule is about the port, and not about any
	all   bool // it asks for nothing else
}

// on gives what may become of a packet by a rule: of a vmap by keys that are not read, several.
func (r *rule) on(p packet) (list []decision) {
	is := func(key string) func(string) bool {
		return func(value string) bool { is, _ := p.has(key, value); return is }
	}
	switch {
	case r.families != nil && !slices.ContainsFunc(r.families, is("family")),
		r.protocols != nil && !slices.ContainsFunc(r.protocols, is("protocol")),
		r.ports != "" && inRanges(r.ports, p.port) == r.not:
		return nil
	case r.entries == nil:
		return []decision{{r.outcome, r.ports != "", !r.others}}
	}
	for _, e := range r.entries {
		d, matches := decision{e.outcome, slices.Contains(r.keys, "port"), !r.others}, true
		for i, key := range r.keys {
			if i < len(e.values) {
				is, known := p.has(key, e.values[i])
				matches, d.all = matches && is, d.all && known
			}
		}
		if matches {
			list = append(list, d)
		}
	}
	return list
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
func rules(list []*chain, c *chain, p packet, jumps int) ruling {
	some := false // have returned
	ends := func(r ruling) ruling {
		if some && r.verdict == "drop" {
			return ruling{}
		}
		return r
	}
	for _, r := range c.rules {
		for _, d := range r.on(p) {
			text := ""
			if d.named {
				text = r.text
			}
			switch {
			case d.verdict == "return" && d.all:
				return ruling{}
			case d.verdict == "return":
				some = true
			case d.verdict == "accept" && (d.all || d.named), d.verdict == "drop" && d.all:
				return ends(ruling{d.verdict, text})
			case d.verdict == "jump" || d.verdict == "goto":
				table := c.name[:strings.LastIndex(c.name, " ")+1]
				i := slices.IndexFunc(list, func(c *chain) bool { return c.name == table+d.target })
				if i < 0 || jumps == mostJumps {
					continue
				}
				there := rules(list, list[i], p, jumps+1)
				if there.rule == "" {
					there.rule = text
				}
				if d.all && (there.verdict != "" || d.verdict == "goto") || there.verdict == "accept" && there.rule != "" {
					return ends(there)
				}
				some = some || d.verdict == "goto" && there.verdict == ""
			}
		}
	}
	return ruling{}
}
