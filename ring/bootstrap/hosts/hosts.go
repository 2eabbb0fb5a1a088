// Package hosts reads the list of a ring's hosts, and finds their addresses.
package hosts

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"ringcli/configs/usage"
)

// Node is one entry of the server list.
type Node struct {
	Host string // name or address, lower case, without brackets
	Port int
}

// String returns host:port, an IPv6 host in brackets.
func (n Node) String() string { return net.JoinHostPort(n.Host, strconv.Itoa(n.Port)) }

// Called is String, and the name of its host, where that has another than the list has.
func (n Node) Called(names map[Node]string) string {
	if name := names[n]; name != "" && name != n.Host {
		return n.String() + ", " + name
	}
	return n.String()
}

// Parse reads a server list: entries host, host:port, [v6]:port or a bare IPv6 address, separated
// by commas or white space, each perhaps with its group behind it (rack=A) and its number of ranks
// (slots=8); node[0-3,7] is a host for each number; @FILE stands for a file's contents, in which #
// begins a comment, and @mpich:FILE for those of a machine file of MPICH, in which host:8 is a
// host of 8 ranks. A host of several ranks that has no port gets consecutive ports from port on.
func Parse(list string, port int) ([]Node, error) {
	if port < 1 || port > 65535 {
		return nil, usage.Errorf("TCP port %d: expected 1 to 65535", port)
	}
	entries, err := splitList(list, true)
	if err == nil {
		entries, _, err = described(entries)
	}
	if err != nil {
		return nil, err
	}
	nodes := make([]Node, len(entries))
	taken := make(map[Node]int, len(entries))
	for i, e := range entries {
		if nodes[i], err = parseEntry(e, i); err != nil {
			return nil, err
		}
		if nodes[i].Port == 0 {
			continue
		}
		if first, ok := taken[nodes[i]]; ok {
			return nil, usage.Errorf("server list: %s is entry %d and entry %d: every rank needs a host:port of its own; "+
				"name the host without a port to get consecutive ones", nodes[i], first, i)
		}
		taken[nodes[i]] = i
	}
	next := make(map[string]int)
	for i := range nodes {
		n := &nodes[i]
		if n.Port != 0 {
			continue
		}
		if next[n.Host] == 0 {
			next[n.Host] = port
		}
		for n.Port = next[n.Host]; ; n.Port++ {
			if _, ok := taken[*n]; !ok {
				break
			}
		}
		if n.Port > 65535 {
			return nil, usage.Errorf("server list: entry %d, %q, is named so often that its TCP ports pass 65535: use a smaller first port than %d",
				i, n.Host, port)
		}
		taken[*n] = i
		next[n.Host] = n.Port + 1
	}
	return nodes, nil
}

// splitList returns the entries of a list, files read. An empty one is a mistake: where
// a variable is unset, the ring of the rest is another ring, and may be a ring of one.
func splitList(list string, files bool) (entries []string, err error) {
	for _, part := range splitCommas(equals.ReplaceAllString(list, "=")) {
		words := strings.Fields(part)
		if len(words) == 0 {
			return nil, usage.Errorf("server list %q: entry %d is empty: expected a host on each side of a comma; is a variable not set?", strings.TrimSpace(list), len(entries))
		}
		for _, e := range words {
			name, isFile := strings.CutPrefix(e, "@")
			if !isFile {
				entries = append(entries, e)
				continue
			}
			if !files {
				return nil, usage.Errorf("server list: %q within a list file: a list file cannot name another", e)
			}
			name, ofMPICH := strings.CutPrefix(name, "mpich:")
			file, err := os.ReadFile(name)
			if err != nil {
				return nil, usage.Errorf("server list: %v: expected @FILE to name a readable file of hosts", err)
			}
			more, err := splitList(comment.ReplaceAllString(strings.TrimPrefix(string(file), "\ufeff"), ""), false)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if ofMPICH {
				more = slotsOfMPICH(more)
			}
			entries = append(entries, more...)
		}
	}
	return entries, nil
}

var (
	comment = regexp.MustCompile("#.*")           // to the end of its line
	equals  = regexp.MustCompile(`[ \t]*=[ \t]*`) // "slots = 8" in host files of Open MPI
)

// slotsOfMPICH makes entries of a list of those of a machine file: host:8 is host slots=8, and
// host is one rank. Source: MPICH's "Using the Hydra Process Manager".
func slotsOfMPICH(entries []string) (list []string) {
	for _, e := range entries {
		if host, n, ok := strings.Cut(e, ":"); ok {
			list = append(list, host, "slots="+n)
		} else {
			list = append(list, e)
		}
	}
	return list
}

// likely says what was perhaps meant by an entry that is no host.
func likely(entry string) string {
	if m := lastOctets.FindStringSubmatch(entry); m != nil {
		return fmt.Sprintf("no address; perhaps %s[%s]", m[1], m[2])
	}
	if m := braces.FindStringSubmatch(entry); m != nil {
		return fmt.Sprintf("no host name; perhaps %s[%s-%s]%s", m[1], m[2], m[3], m[4])
	}
	if strings.ContainsAny(entry, "{}") {
		return "braces are the shell's, and were not replaced"
	}
	if strings.Contains(entry, "=") {
		return "only rack=, group=, slots= and max_slots= with a value may follow a host"
	}
	return ""
}

var (
	lastOctets = regexp.MustCompile(`^([0-9]+\.[0-9]+\.[0-9]+\.)([0-9]+-[0-9]+)$`)
	braces     = regexp.MustCompile(`^([^{}]*)\{([0-9]+)\.\.([0-9]+)\}(.*)$`)
)

func parseEntry(entry string, index int) (Node, error) {
	bad := func(why string) (Node, error) {
		return Node{}, usage.Errorf("server list: entry %d is %q: %s; expected host, host:port, host[0-3,7], [v6]:port or an IPv6 address", index, entry, why)
	}
	if why := likely(entry); why != "" {
		return bad(why)
	}
	bare, opened := strings.CutPrefix(entry, "[")
	bare, closed := strings.CutSuffix(bare, "]")
	if a, why, ok := parseAddr(bare); ok && opened == closed {
		if why != "" {
			return bad(why)
		}
		return Node{Host: a.String()}, nil
	}
	host, port := entry, ""
	if strings.ContainsAny(entry, ":[]") {
		var err error
		if host, port, err = net.SplitHostPort(entry); err != nil {
			return bad("not host:port")
		}
	}
	n := Node{Host: strings.ToLower(host)}
	if a, why, ok := parseAddr(host); why != "" {
		return bad(why)
	} else if ok {
		n.Host = a.String()
	} else if why := NotName(host); why != "" {
		return bad(why)
	}
	if host != entry {
		p, err := strconv.ParseUint(port, 10, 16)
		if err != nil || p == 0 {
			return bad("port " + strconv.Quote(port) + " is not 1 to 65535")
		}
		n.Port = int(p)
	}
	return n, nil
}

// parseAddr reads an address, and says why no node has it.
func parseAddr(text string) (a netip.Addr, why string, ok bool) {
	a, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return a, "", false
	case a.IsMulticast():
		why = "a multicast address, which no node has"
	case a.Zone() != "" && !validZone.MatchString(a.Zone()):
		why = "its zone is not the name of an interface"
	}
	return a, why, true
}

// validZone is what Linux calls an interface, and a list can hold (net/core/dev.c, dev_valid_name).
var validZone = regexp.MustCompile(`^[^][:/%,\s]{1,15}$`)

// validName is what resolvers accept: labels of at most 63 bytes (RFC 1035, section 2.3.4).
var validName = regexp.MustCompile(`^(?:[0-9A-Za-z_][0-9A-Za-z_-]{0,62}\.)*[0-9A-Za-z_][0-9A-Za-z_-]{0,62}\.?$`)

// numericEnd is the end of an address that is none: no top-level domain is a number (RFC 3696,
// section 2).
var numericEnd = regexp.MustCompile(`\.[0-9]+$`)

// NotName says why a text is the name of no host, which no name server will ever know; "" if it
// may be one.
func NotName(text string) string {
	switch {
	case len(text) > 253 || !validName.MatchString(text):
		return "not a host name"
	case numericEnd.MatchString(text):
		return "neither an IPv4 address nor a host name"
	}
	return ""
}

// Digest returns a short fingerprint of the list, equal on nodes whose lists name
// the same hosts and ports in the same order.
func Digest(nodes []Node) string {
	h := sha256.New()
	for _, n := range nodes {
		_, _ = io.WriteString(h, n.String()+"\n") // a hash never fails
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Names says which nodes of a whole list are meant: "rank 2 (node2:18600)".
func Names(whole []Node, entries []int) string {
	var words []string
	for _, e := range entries {
		if e >= 0 && e < len(whole) {
			words = append(words, fmt.Sprintf("%d (%s)", e, whole[e]))
		}
	}
	switch len(words) {
	case 0:
		return "nobody"
	case 1:
		return "entry " + words[0]
	}
	return "entries " + strings.Join(words, ", ")
}

// Remaining returns the entries of a whole list that are not left out, each with its place
// there.
func Remaining(whole []Node, without []int) (nodes []Node, places []int) {
	for i, n := range whole {
		if !slices.Contains(without, i) {
			nodes, places = append(nodes, n), append(places, i)
		}
	}
	return nodes, places
}
