package doctor

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"ringcli/configs/codes"
	"ringcli/verbs/route"
)

// patience is how long a program of the system may take to answer.
const patience = 5 * time.Second

// ruleset asks nft, which shows what iptables-nft and firewalld have set too, and iptables-legacy,
// whose rules nft does not show. Where there is no nft it asks iptables. What iptables prints follows
// a line of savedBy.
func ruleset() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	run := func(program string, args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
		if err != nil {
			said, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
			return "", fmt.Errorf("%s: %w %s", strings.Join(append([]string{program}, args...), " "), err, said)
		}
		return string(out), nil
	}
	text, err := run("nft", "list", "ruleset")
	programs := []string{"iptables-legacy-save", "ip6tables-legacy-save"}
	if err != nil {
		programs = append(programs, "iptables-save", "ip6tables-save")
	}
	for _, program := range programs {
		if saved, failed := run(program); failed == nil {
			text, err = text+savedBy+program+"\n"+saved, nil
		}
	}
	return text, err
}

// families are those of the ring's addresses, as nftables names them. A ring takes IPv4 where a
// name has both, and so does one whose addresses are not known.
func (e *exam) families() (list []string) {
	for _, a := range e.addrs {
		family := "ip6"
		switch {
		case !a.Addr().IsValid():
			continue
		case a.Addr().Is4():
			family = "ip"
		}
		if !slices.Contains(list, family) {
			list = append(list, family)
		}
	}
	if list == nil {
		return []string{"ip"}
	}
	return list
}

// firewallRow tells of a port that this node's own firewall shuts. One that a rule lets in is
// taken to be open: for whom is the rule's business. What lies between the nodes, `path` sees.
func (e *exam) firewallRow() []Preflight {
	ruleset, err := e.Ruleset()
	if err != nil {
		return []Preflight{skip("firewall", "", "%v", err)}
	}
	var said, shut, fix []string
	by := "" // which has a rule that lets a port in
	list, families := chains(ruleset), e.families()
	for _, c := range list {
		seen := families
		if family, _, _ := strings.Cut(c.name, " "); family != "inet" {
			seen = slices.DeleteFunc(slices.Clone(families), func(f string) bool { return f != family })
		}
		if !c.input || len(seen) == 0 {
			continue
		}
		var unnamed []string
		for _, p := range []struct {
			protocol string
			port     int
			wanted   bool
		}{{"tcp", int(e.binds().Port()), true}, {"udp", route.RoCEPort, e.soft || e.exists("sys/module/rdma_rxe")}} {
			if !p.wanted {
				continue
			}
			closed := func(r ruling) bool { return r.verdict == "drop" || r.verdict == "" && c.policy == "drop" }
			var r ruling
			for _, family := range seen {
				if r = rules(list, c, packet{family, p.protocol, p.port}, 0); closed(r) {
					break
				}
			}
			name := fmt.Sprintf("%s %d", strings.ToUpper(p.protocol), p.port)
			switch {
			case !closed(r):
				if r.rule != "" {
					by = c.name
				}
				continue
			case r.rule != "":
				said = append(said, fmt.Sprintf("%s drops %s: %s", c.name, name, r.rule))
			default:
				unnamed = append(unnamed, name)
			}
			if !slices.Contains(shut, name) {
				shut = append(shut, name)
			}
			if c.program != "" {
				fix = append(fix, fmt.Sprintf("%s -I INPUT -p %s --dport %d -j ACCEPT", c.program, p.protocol, p.port))
			} else {
				fix = append(fix, fmt.Sprintf("nft insert rule %s %s dport %d accept", c.name, p.protocol, p.port))
			}
		}
		if unnamed != nil {
			said = append(said, fmt.Sprintf("%s lets in what a rule names, and none names %s", c.name, strings.Join(unnamed, " and ")))
		}
	}
	switch {
	case shut != nil:
		return []Preflight{finding(Warn, "firewall", "", strings.Join(said, "; ")).
			but(codes.Timeout, strings.Join(shut, " and ")+" open, unless a rule lets the other nodes in by their addresses", strings.Join(fix, " && ")+"  # or by firewalld or ufw, if they have written the rules")}
	case by != "":
		return []Preflight{pass("firewall", "", "%s has rules for the ports", by)}
	}
	return []Preflight{pass("firewall", "", "no rule of this node's keeps the ports shut: it lets in what comes")}
}
