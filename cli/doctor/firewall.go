package doctor

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
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

// savedBy begins a line before what a program of iptables has printed, and names it.
const savedBy = "# saved by "

var (
	// dports is the ports that a rule is about, as nft and iptables print it.
	dports = regexp.MustCompile(`dports?\s+(?:!=\s*)?(\{[^}]*\}|\S+)`)
	// refusesAll is what lets in what other rules name: the policy of the input hook, or a rule
	// that asks for nothing.
	refusesAll = regexp.MustCompile(`hook input .*policy drop|^:INPUT DROP|^-A INPUT -j (?:DROP|REJECT)`)
	// endsInput is such a rule of nft's, in a chain of the input hook.
	endsInput = regexp.MustCompile(`^(?:counter (?:packets \d+ bytes \d+ )?)?(?:drop|reject)\b`)
)

// mostRules is how many rules are shown.
const mostRules = 4

// firewallRow shows the rules of this node's own firewall that name the ring's ports: whether they
// let packets in, and whose, `path` tests. Of a firewall that lets in what rules name it warns if
// none names them.
func (e *socketExam) firewallRow() Preflight {
	ruleset, err := e.Ruleset()
	if err != nil {
		return skip("firewall", "", "%v", err)
	}
	ports := map[int]string{int(e.bind.Port()): fmt.Sprintf("TCP %d", e.bind.Port())}
	if e.soft || e.node.exists("sys/module/rdma_rxe") {
		ports[route.RoCEPort] = fmt.Sprintf("UDP %d", route.RoCEPort)
	}
	var named []string
	closed, input := "", false
	unnamed := maps.Clone(ports)
	for line := range strings.Lines(ruleset) {
		line = strings.TrimSpace(line)
		switch {
		case strings.Contains(line, "hook input"):
			input = true
		case line == "}":
			input = false
		}
		if refusesAll.MatchString(line) || input && endsInput.MatchString(line) {
			closed = line
		}
		of := dports.FindStringSubmatch(line)
		if of == nil {
			continue
		}
		list := strings.NewReplacer("{", "", "}", "", " ", "", ":", "-").Replace(of[1])
		for port := range ports {
			if inRanges(list, port) {
				delete(unnamed, port)
				if !slices.Contains(named, line) {
					named = append(named, line)
				}
			}
		}
	}
	names := strings.Join(slices.Sorted(maps.Values(unnamed)), " and ")
	switch {
	case closed != "" && names != "":
		return finding(Warn, "firewall", "", fmt.Sprintf("%q lets in what a rule names, and none names %s", closed, names)).
			but(codes.Timeout, names+" open, unless another rule lets them in", "nft list ruleset; iptables-save  # `path` tests what passes")
	case named != nil:
		more := ""
		if len(named) > mostRules {
			more = fmt.Sprintf(", and %d more", len(named)-mostRules)
		}
		return skip("firewall", "", "rules name the ports, `path` tests what passes: %s%s", strings.Join(named[:min(len(named), mostRules)], "; "), more)
	}
	return pass("firewall", "", "no rule of this node's names the ports or shuts all")
}
