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

var firewallCases = []provocation{
	{"nobody to ask", func(_ *testing.T, f *fake) {
		f.Ruleset = func() (string, error) { return "", errors.New("no nft") }
	}, "firewall", Skip, "", "no nft", ""},
	{"no firewall", func(*testing.T, *fake) {}, "firewall", Pass, "", "lets in what comes", ""},
	{"one that accepts", shows("accept", "tcp dport 22 accept"), "firewall", Pass, "", "lets in what comes", ""},
	{"one that drops", shows("drop", "tcp dport 22 accept"), "firewall", Warn, codes.Timeout, "inet filter input lets in what a rule names, and none names TCP 18600", "nft insert rule inet filter input tcp dport 18600 accept"},
	{"one that rejects at its end", shows("accept", "tcp dport { 22, 80-90 } accept\n\t\treject with icmpx admin-prohibited"), "firewall", Warn, codes.Timeout, "none names TCP 18600", "nft insert"},
	{"one that drops and counts", shows("accept", "counter packets 3 bytes 4 drop"), "firewall", Warn, codes.Timeout, "none names TCP 18600", "nft insert"},
	{"an open port, and a device in software", func(t *testing.T, f *fake) {
		f.software()
		shows("drop", "tcp dport 18000-19000 accept")(t, f)
	}, "firewall", Warn, codes.Timeout, "none names UDP 4791", "nft insert rule inet filter input udp dport 4791 accept"},
	{"open ports", func(t *testing.T, f *fake) {
		f.software()
		shows("drop", "tcp dport 18600 accept\n\t\tudp dport { 53, 4791 } accept")(t, f)
	}, "firewall", Pass, "", "has rules for the ports", ""},
}
