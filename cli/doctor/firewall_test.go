package doctor

import (
	"errors"
	"testing"

	"ringcli/configs/codes"
)

// shows has nft show a chain of the input hook.
func shows(policy, rules string) func(*testing.T, *fake) {
	return func(_ *testing.T, f *fake) {
		f.Ruleset = func() (string, error) {
			return "table ip nat {\n\tchain post {\n\t\tdrop\n\t}\n}\ntable inet filter {\n\tchain input {\n\t\ttype filter hook input priority filter; policy " + policy + ";\n\t\tct state established accept\n\t\t" + rules + "\n\t}\n}\n", nil
		}
	}
}

// saves has iptables-save print rules of the table filter, and nobody print nft's.
func saves(policy, rules string) func(*testing.T, *fake) {
	return func(_ *testing.T, f *fake) {
		f.Ruleset = func() (string, error) {
			return savedBy + "iptables-save\n*filter\n:INPUT " + policy + " [0:0]\n" + rules + "COMMIT\n", nil
		}
	}
}

// inSoftware has the node a device in software, too.
func inSoftware(shows func(*testing.T, *fake)) func(*testing.T, *fake) {
	return func(t *testing.T, f *fake) {
		f.software()
		shows(t, f)
	}
}

var firewallCases = []provocation{
	{"nobody to ask", func(_ *testing.T, f *fake) {
		f.Ruleset = func() (string, error) { return "", errors.New("no nft") }
	}, "firewall", Skip, "", "no nft", ""},
	{"no firewall", func(*testing.T, *fake) {}, "firewall", Pass, "", "no rule of this node's", ""},
	{"one that accepts", shows("accept", "tcp dport 22 accept"), "firewall", Pass, "", "no rule of this node's", ""},
	{"one that drops", shows("drop", "tcp dport 22 accept"), "firewall", Warn, codes.Timeout, "policy drop;\" lets in what a rule names, and none names TCP 18600", "nft list ruleset"},
	{"one that rejects at its end", shows("accept", "tcp dport { 22, 80-90 } accept\n\t\treject with icmpx admin-prohibited"), "firewall", Warn, codes.Timeout, "none names TCP 18600", "nft"},
	{"one that drops and counts", shows("accept", "counter packets 3 bytes 4 drop"), "firewall", Warn, codes.Timeout, "none names TCP 18600", "nft"},
	{"a range", shows("drop", "tcp dport 18000-19000 accept"), "firewall", Skip, "", "rules name the ports, `path` tests what passes: tcp dport 18000-19000 accept", ""},
	{"a range, and a device in software", inSoftware(shows("drop", "tcp dport 18000-19000 accept")), "firewall", Warn, codes.Timeout, "none names UDP 4791", "nft"},
	{"a set", inSoftware(shows("drop", "meta l4proto { tcp, udp } th dport { 4791, 18600 } accept")), "firewall", Skip, "", "th dport { 4791, 18600 } accept", ""},
	{"a rule that drops the port", shows("accept", "tcp dport 18600 drop"), "firewall", Skip, "", "tcp dport 18600 drop", ""},
	{"all other ports", shows("accept", "tcp dport != { 22, 18600 } drop"), "firewall", Skip, "", "dport != { 22, 18600 } drop", ""},
	{"a counter that is like a port", shows("drop", "udp dport 53 counter packets 4791 bytes 18600 accept"), "firewall", Warn, codes.Timeout, "none names TCP 18600", "nft"},
	{"a drop of some", shows("accept", `iifname "docker0" drop`), "firewall", Pass, "", "no rule of this node's", ""},
	{"many", shows("accept", "tcp dport 18600 accept\n\t\tip saddr 10.0.0.1 tcp dport 18600 drop\n\t\ttcp dport 1-19000 drop\n\t\ttcp dport 18600 counter accept\n\t\ttcp dport 18600 log accept"), "firewall", Skip, "", ", and 1 more", ""},
	{"iptables that accept", saves("ACCEPT", "-A INPUT -p tcp -m tcp --dport 22 -j DROP\n"), "firewall", Pass, "", "no rule of this node's", ""},
	{"iptables that drop", saves("DROP", "-A INPUT -i lo -j ACCEPT\n"), "firewall", Warn, codes.Timeout, "\":INPUT DROP [0:0]\" lets in what a rule names, and none names TCP 18600", "nft list ruleset"},
	{"iptables that reject at their end", saves("ACCEPT", "-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT\n-A INPUT -j REJECT --reject-with icmp-port-unreachable\n"), "firewall", Warn, codes.Timeout, "none names TCP 18600", "nft list ruleset"},
	{"iptables with a rule for the port", saves("DROP", "-A INPUT -p tcp -m multiport --dports 22,18000:19000 -j ACCEPT\n"), "firewall", Skip, "", "--dports 22,18000:19000 -j ACCEPT", ""},
}
