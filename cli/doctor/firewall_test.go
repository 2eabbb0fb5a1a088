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

// families has nft show a chain for each family, and the node be of a ring.
func families(list, ip, ip6 string) func(*testing.T, *fake) {
	return func(t *testing.T, f *fake) {
		if list != "" {
			f.list(t, list, 0)
		}
		f.Ruleset = func() (string, error) {
			const hook = " filter {\n\tchain INPUT {\n\t\ttype filter hook input priority filter; policy drop;\n\t\t"
			return "table ip" + hook + ip + "\n\t}\n}\ntable ip6" + hook + ip6 + "\n\t}\n}\n", nil
		}
	}
}

// ufw has nft show the chains of ufw, with those of its rules that its user wrote.
func ufw(user string) func(*testing.T, *fake) {
	return shows("drop", `counter packets 9 bytes 540 jump ufw-before-input
		counter packets 9 bytes 540 jump ufw-after-input
	}
	chain ufw-before-input {
		iifname "lo" counter packets 4 bytes 300 accept
		ct state related,established counter packets 0 bytes 0 accept
		ct state invalid counter packets 0 bytes 0 jump ufw-logging-deny
		ct state invalid counter packets 0 bytes 0 drop
		meta l4proto udp udp sport 67 udp dport 68 counter packets 0 bytes 0 accept
		counter packets 9 bytes 540 jump ufw-not-local
		ip daddr 224.0.0.251 udp dport 5353 counter packets 0 bytes 0 accept
		counter packets 9 bytes 540 jump ufw-user-input
	}
	chain ufw-after-input {
		udp dport 137 counter packets 0 bytes 0 jump ufw-skip-to-policy-input
		fib daddr type broadcast counter packets 0 bytes 0 jump ufw-skip-to-policy-input
	}
	chain ufw-skip-to-policy-input {
		counter packets 0 bytes 0 drop
	}
	chain ufw-logging-deny {
		ct state invalid limit rate 3/minute burst 10 packets counter packets 0 bytes 0 return
		limit rate 3/minute burst 10 packets counter packets 0 bytes 0 log prefix "[UFW BLOCK] "
	}
	chain ufw-not-local {
		fib daddr type local counter packets 9 bytes 540 return
		fib daddr type multicast counter packets 0 bytes 0 return
		fib daddr type broadcast counter packets 0 bytes 0 return
		limit rate 3/minute burst 10 packets counter packets 0 bytes 0 jump ufw-logging-deny
		counter packets 0 bytes 0 drop
	}
	chain ufw-user-limit {
		limit rate 3/minute burst 5 packets counter packets 0 bytes 0 log prefix "[UFW LIMIT BLOCK] "
		counter packets 0 bytes 0 reject
	}
	chain ufw-user-limit-accept {
		counter packets 0 bytes 0 accept
	}
	chain ufw-user-input {
		`+user)
}

// saves has iptables-save print rules of the table filter, and nobody print nft's.
func saves(program, policy, rules string) func(*testing.T, *fake) {
	return func(_ *testing.T, f *fake) {
		f.Ruleset = func() (string, error) {
			return savedBy + program + "\n*nat\n:INPUT DROP [0:0]\n-A INPUT -j DROP\nCOMMIT\n*filter\n:INPUT " + policy + " [0:0]\n:fence - [0:0]\n" + rules + "COMMIT\n", nil
		}
	}
}

var firewallCases = []provocation{
	{"iptables that accept", saves("iptables-save", "ACCEPT", "-A INPUT -p tcp -m tcp --dport 22 -j DROP\n"), "firewall", Pass, "", "lets in what comes", ""},
	{"iptables that drop", saves("iptables-save", "DROP", "-A INPUT -i lo -j ACCEPT\n-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n"), "firewall", Warn, codes.Timeout,
		"ip filter INPUT lets in what a rule names, and none names TCP 18600", "iptables -I INPUT -p tcp --dport 18600 -j ACCEPT"},
	{"iptables with a rule for the port", saves("iptables-legacy-save", "ACCEPT", "-A INPUT -p tcp -m multiport --dports 22,18000:19000 -m comment --comment \"not -j ACCEPT\" -j DROP\n"), "firewall", Warn, codes.Timeout,
		"ip filter INPUT drops TCP 18600: -p tcp", "iptables-legacy -I INPUT -p tcp --dport 18600"},
	{"iptables that let it in first", saves("iptables-save", "DROP", "-A INPUT -s 10.0.0.0/8 -p tcp -m tcp --dport 18600 -m conntrack --ctstate NEW -j ACCEPT\n-A INPUT -p tcp -j DROP\n"), "firewall", Pass, "", "has rules for the ports", ""},
	{"iptables that reject all other ports", saves("iptables-save", "ACCEPT", "-A INPUT -p tcp -m tcp ! --dport 22 -j REJECT --reject-with tcp-reset\n"), "firewall", Warn, codes.Timeout, "drops TCP 18600", "iptables -I"},
	{"iptables that drop some packets", saves("iptables-save", "ACCEPT", "-A INPUT -p tcp -m statistic --mode random --probability 0.02 -j DROP\n"), "firewall", Pass, "", "lets in what comes", ""},
	{"iptables with a chain that drops", saves("iptables-save", "ACCEPT", "-A INPUT -p tcp -j fence\n-A fence -p tcp -m tcp --dport 18600 -j DROP\n"), "firewall", Warn, codes.Timeout, "drops TCP 18600: -p tcp -m tcp --dport 18600 -j DROP", "iptables -I"},
	{"ip6tables, and a ring of IPv4", saves("ip6tables-save", "DROP", ""), "firewall", Pass, "", "lets in what comes", ""},
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
	{"a rule that drops the port", shows("accept", "tcp dport 18600 drop"), "firewall", Warn, codes.Timeout, "inet filter input drops TCP 18600: tcp dport 18600 drop", "nft insert rule inet filter input tcp dport 18600 accept"},
	{"a rule that rejects a range", shows("accept", `ct state new tcp dport { 22, 18000-19000 } log prefix "x accept" counter packets 0 bytes 0 reject with tcp reset comment "y"`), "firewall", Warn, codes.Timeout, "inet filter input drops TCP 18600: ct state new", "nft insert"},
	{"a rule that drops it under a policy that does", shows("drop", "tcp dport 18600 counter packets 1 bytes 60 drop"), "firewall", Warn, codes.Timeout, "drops TCP 18600", "nft insert"},
	{"a rule that lets it in first", shows("accept", "ip saddr 10.0.0.0/8 tcp dport 18600 accept\n\t\ttcp dport 18600 drop"), "firewall", Pass, "", "has rules for the ports", ""},
	{"the other protocol", shows("drop", "udp dport 18600 accept"), "firewall", Warn, codes.Timeout, "none names TCP 18600", "nft insert"},
	{"the other protocol is dropped", shows("accept", "udp dport 18600 drop"), "firewall", Pass, "", "lets in what comes", ""},
	{"a counter that is like a port", func(t *testing.T, f *fake) {
		f.software()
		shows("drop", "tcp dport 18600 accept\n\t\tudp dport 53 counter packets 4791 bytes 18600 accept")(t, f)
	}, "firewall", Warn, codes.Timeout, "none names UDP 4791", "nft insert rule inet filter input udp dport 4791 accept"},
	{"both protocols", func(t *testing.T, f *fake) {
		f.software()
		shows("drop", "meta l4proto { tcp, udp } th dport { 4791, 18600 } accept")(t, f)
	}, "firewall", Pass, "", "has rules for the ports", ""},
	{"all other ports", shows("accept", "tcp dport != { 22, 80 } drop"), "firewall", Warn, codes.Timeout, "drops TCP 18600", "nft insert"},
	{"a map", shows("drop", "tcp dport vmap { 22 : accept, 18600 : accept }"), "firewall", Pass, "", "has rules for the ports", ""},
	{"a jump to what drops", shows("accept", "jump fence\n\t}\n\tchain fence {\n\t\ttcp dport 18600 drop"), "firewall", Warn, codes.Timeout, "inet filter input drops TCP 18600: tcp dport 18600 drop", "nft insert rule inet filter input"},
	{"a jump to what lets in", shows("drop", `iifname "eth0" counter packets 5 bytes 300 jump fence`+"\n\t}\n\tchain fence {\n\t\tmeta l4proto tcp tcp dport 18600 accept"), "firewall", Pass, "", "inet filter input has rules for the ports", ""},
	{"a jump for the port", shows("accept", "tcp dport 18600 jump fence\n\t}\n\tchain fence {\n\t\tdrop"), "firewall", Warn, codes.Timeout, "drops TCP 18600: tcp dport 18600 jump fence", "nft insert"},
	{"a jump for others", shows("accept", `iifname "docker0" jump fence`+"\n\t}\n\tchain fence {\n\t\tdrop"), "firewall", Pass, "", "lets in what comes", ""},
	{"a jump in a circle", shows("accept", "jump fence\n\t}\n\tchain fence {\n\t\tjump fence"), "firewall", Pass, "", "lets in what comes", ""},
	{"a set that is not read", shows("accept", "ct state vmap { established : accept, invalid : drop }\n\t}\n\tset ports {\n\t\ttype inet_service\n\t\telements = { 22, 18600 }"), "firewall", Pass, "", "lets in what comes", ""},
	{"all from one interface", shows("drop", `iifname "lo" accept`), "firewall", Warn, codes.Timeout, "none names TCP 18600", "nft insert"},
	{"all of a protocol", shows("drop", "meta l4proto tcp accept"), "firewall", Pass, "", "lets in what comes", ""},
	{"ufw, which lets it in", ufw("tcp dport 18600 counter packets 0 bytes 0 accept"), "firewall", Pass, "", "inet filter input has rules for the ports", ""},
	{"ufw, which lets in another", ufw("tcp dport 22 counter packets 0 bytes 0 accept"), "firewall", Warn, codes.Timeout, "none names TCP 18600", "nft insert"},
	{"a jump to what drops all but some", shows("accept", "jump fence\n\t}\n\tchain fence {\n\t\tip saddr 10.0.0.0/8 return\n\t\tjump end\n\t}\n\tchain end {\n\t\tdrop"), "firewall", Pass, "", "lets in what comes", ""},
	{"what is behind a drop of all but some", shows("drop", "jump fence\n\t}\n\tchain fence {\n\t\tip saddr 10.0.0.0/8 return\n\t\tdrop\n\t\ttcp dport 18600 accept"), "firewall", Warn, codes.Timeout, "none names TCP 18600", "nft insert"},
	{"some return before the port is let in", shows("drop", "jump fence\n\t}\n\tchain fence {\n\t\ttcp dport 18600 ip saddr 10.0.0.0/8 return\n\t\ttcp dport 18600 accept"), "firewall", Pass, "", "has rules for the ports", ""},
	{"a drop of one interface", shows("accept", `iifname "eth0" tcp dport 1-65535 drop`), "firewall", Pass, "", "lets in what comes", ""},
	{"a drop of some addresses", shows("accept", "ip saddr 192.0.2.0/24 tcp dport 18600 drop"), "firewall", Pass, "", "lets in what comes", ""},
	{"a drop of what comes too often", shows("accept", "tcp dport 18600 limit rate over 10/second drop"), "firewall", Pass, "", "lets in what comes", ""},
	{"a drop of some in a chain for the port", shows("accept", "tcp dport 18600 jump fence\n\t}\n\tchain fence {\n\t\tip saddr 192.0.2.0/24 drop"), "firewall", Pass, "", "lets in what comes", ""},
	{"a chain that drops, for some and the port", shows("accept", `iifname "eth0" tcp dport 18600 jump fence`+"\n\t}\n\tchain fence {\n\t\tdrop"), "firewall", Pass, "", "lets in what comes", ""},
	{"a drop of some before the port is let in", shows("drop", "ip saddr 192.0.2.0/24 tcp dport 18600 drop\n\t\ttcp dport 18600 accept"), "firewall", Pass, "", "has rules for the ports", ""},
	{"ufw, which lets it in but not too often", ufw(`tcp dport 18600 ct state new # recent: SET name: DEFAULT side: source mask: 255.255.255.255 counter packets 0 bytes 0
		tcp dport 18600 ct state new # recent: UPDATE seconds: 30 hit_count: 6 name: DEFAULT side: source mask: 255.255.255.255 counter packets 0 bytes 0 jump ufw-user-limit
		tcp dport 18600 counter packets 0 bytes 0 jump ufw-user-limit-accept`), "firewall", Pass, "", "has rules for the ports", ""},
	{"open for IPv4, of which the ring is", families("node0,node1", "tcp dport 18600 accept", ""), "firewall", Pass, "", "ip filter INPUT has rules for the ports", ""},
	{"open for IPv4, and the ring is not known", families("", "tcp dport 18600 accept", ""), "firewall", Pass, "", "ip filter INPUT has rules for the ports", ""},
	{"open for IPv6, of which the ring is not", families("node0,node1", "", "tcp dport 18600 accept"), "firewall", Warn, codes.Timeout, "ip filter INPUT lets in what a rule names, and none names TCP 18600", "nft insert rule ip filter INPUT tcp dport 18600 accept"},
	{"open for IPv6, of which the ring is", families("[fd00::1],[fd00::2]", "", "tcp dport 18600 accept"), "firewall", Pass, "", "ip6 filter INPUT has rules for the ports", ""},
	{"open for one family, and the ring is of both", families("node0,[fd00::2]", "tcp dport 18600 accept", ""), "firewall", Warn, codes.Timeout, "ip6 filter INPUT lets in", "nft insert rule ip6 filter INPUT tcp dport 18600 accept"},
	{"all of a family", shows("drop", "meta protocol ip accept"), "firewall", Pass, "", "lets in what comes", ""},
	{"all of the other family", shows("drop", "meta nfproto ipv6 accept"), "firewall", Warn, codes.Timeout, "none names TCP 18600", "nft insert"},
	{"a drop of the other family", shows("accept", "meta nfproto ipv6 drop"), "firewall", Pass, "", "lets in what comes", ""},
	{"a drop of a family of the ring", func(t *testing.T, f *fake) {
		f.list(t, "node0,[fd00::2]", 0)
		shows("accept", "meta nfproto ipv6 tcp dport 18600 drop")(t, f)
	}, "firewall", Warn, codes.Timeout, "drops TCP 18600: meta nfproto ipv6", "nft insert"},
	{"a map of families", shows("drop", "meta protocol vmap { ip : jump four, ip6 : jump six }\n\t}\n\tchain four {\n\t\ttcp dport 18600 accept\n\t}\n\tchain six {\n\t\tdrop"), "firewall", Pass, "", "has rules for the ports", ""},
	{"a map of families to what drops", shows("accept", "meta protocol vmap { ip : jump four, ip6 : jump six }\n\t}\n\tchain four {\n\t\ttcp dport 18600 drop\n\t}\n\tchain six {\n\t\taccept"), "firewall", Warn, codes.Timeout, "drops TCP 18600: tcp dport 18600 drop", "nft insert"},
	{"a map of ports to a chain", shows("drop", "tcp dport vmap { 22 : accept, 18000-19000 : jump ring }\n\t}\n\tchain ring {\n\t\tip saddr 10.0.0.0/8 drop\n\t\taccept"), "firewall", Pass, "", "has rules for the ports", ""},
	{"a map of ports to a chain that drops", shows("accept", "tcp dport vmap { 22 : accept, 18600 : goto ring }\n\t}\n\tchain ring {\n\t\tdrop"), "firewall", Warn, codes.Timeout, "drops TCP 18600: tcp dport vmap", "nft insert"},
	{"a map of interfaces", shows("drop", `iifname vmap { "lo" : accept, "eth0" : jump world, "eth1" : jump cluster }`+"\n\t}\n\tchain world {\n\t\tdrop\n\t}\n\tchain cluster {\n\t\ttcp dport 18600 accept"), "firewall", Pass, "", "has rules for the ports", ""},
	{"a map of interfaces, of which none lets it in", shows("drop", `iifname vmap { "lo" : accept, "eth0" : jump world }`+"\n\t}\n\tchain world {\n\t\ttcp dport 22 accept"), "firewall", Warn, codes.Timeout, "none names TCP 18600", "nft insert"},
	{"a map of protocols and ports", func(t *testing.T, f *fake) {
		f.software()
		shows("drop", "ip protocol . th dport vmap { tcp . 22 : accept, udp . 4791 : accept, tcp . 18600 : accept }")(t, f)
	}, "firewall", Pass, "", "has rules for the ports", ""},
	{"a map of the other protocol and the port", shows("drop", "meta l4proto . th dport vmap { udp . 18600 : accept }"), "firewall", Warn, codes.Timeout, "none names TCP 18600", "nft insert"},
	{"a set with a name", shows("drop", "tcp dport @open accept"), "firewall", Pass, "", "has rules for the ports", ""},
	{"a set of addresses and ports", shows("drop", "ip saddr . tcp dport { 10.1.2.4 . 18600 } accept"), "firewall", Pass, "", "has rules for the ports", ""},
	{"a set of ports and addresses that is dropped", shows("accept", "tcp dport . ip saddr @bad drop"), "firewall", Pass, "", "lets in what comes", ""},
}
