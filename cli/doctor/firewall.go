package doctor

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"ringcli/configs/codes"
	"ringcli/verbs/route"
)

// patience is how long a program of the system may take to answer.
const patience = 5 * time.Second

// ruleset asks nft, which shows what iptables-nft and firewalld have set too.
func ruleset() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "nft", "list", "ruleset").CombinedOutput()
	if err != nil {
		said, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return "", fmt.Errorf("nft list ruleset: %w %s", err, said)
	}
	return string(out), nil
}

// shuts finds a chain that drops whatever comes in and no rule has let in: "inet filter input".
func shuts(rules string) string {
	table, chain, input := "", "", false
	for line := range strings.Lines(rules) {
		switch f := strings.Fields(line); {
		case len(f) == 0:
		case f[0] == "table" && len(f) > 2:
			table = f[1] + " " + f[2]
		case f[0] == "chain" && len(f) > 1:
			chain, input = f[1], false
		case strings.Contains(line, "hook input"):
			if input = true; strings.Contains(line, "policy drop") {
				return table + " " + chain
			}
		case input && (f[0] == "drop" || f[0] == "reject" || f[0] == "counter" && (strings.Contains(line, "drop") || strings.Contains(line, "reject"))):
			return table + " " + chain
		}
	}
	return ""
}

var (
	ofPorts = regexp.MustCompile(`dport[^\n]*`)
	ranges  = regexp.MustCompile(`\d+(-\d+)?`)
)

// names tells whether a rule is about a port.
func names(rules string, port int) bool {
	for _, rule := range ofPorts.FindAllString(rules, -1) {
		if inRanges(strings.Join(ranges.FindAllString(rule, -1), ","), port) {
			return true
		}
	}
	return false
}

// firewallRow tells of a port that this node's own firewall shuts. One that a rule names is
// taken to be open: to whom is the rule's business. What lies between the nodes, `path` sees.
func (e *exam) firewallRow() []Preflight {
	rules, err := e.Ruleset()
	if err != nil {
		return []Preflight{skip("firewall", "", "%v", err)}
	}
	chain := shuts(rules)
	if chain == "" {
		return []Preflight{pass("firewall", "", "nftables lets in what comes")}
	}
	tcp := int(e.binds().Port())
	var shut, fix []string
	for _, p := range []struct {
		protocol string
		port     int
		wanted   bool
	}{{"tcp", tcp, true}, {"udp", route.RoCEPort, e.soft || e.exists("sys/module/rdma_rxe")}} {
		if p.wanted && !names(rules, p.port) {
			shut = append(shut, fmt.Sprintf("%s %d", strings.ToUpper(p.protocol), p.port))
			fix = append(fix, fmt.Sprintf("nft insert rule %s %s dport %d accept", chain, p.protocol, p.port))
		}
	}
	if shut == nil {
		return []Preflight{pass("firewall", "", "%s has rules for the ports", chain)}
	}
	ports := strings.Join(shut, " and ")
	return []Preflight{finding(Warn, "firewall", "", fmt.Sprintf("%s lets in what a rule names, and none names %s", chain, ports)).
		but(codes.Timeout, ports+" open, unless a rule lets the other nodes in by their addresses", strings.Join(fix, " && ")+"  # or by firewalld or ufw, if they have written the rules")}
}
