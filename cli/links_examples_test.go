package cli

import (
	"ringcli/cli/links"
	"ringcli/cli/render"
)

// linksExamples are what links prints: pairs, who is to blame, and how it ends.
func linksExamples() []example {
	n := func(count uint64) *uint64 { return &count }
	return []example{
		printing("links",
			[]render.Record{
				links.Link{
					Command: "links", OK: true, From: 0, To: 1, FromHost: "node0", ToHost: "node1", Latency: links.LinkLatency{P50: 3.125, P99: 12345.678}, Write: 11.875, Both: 10.5,
					Resent: n(0), Lost: n(0), RNR: n(0), Packets: 290000, Device: "ibv:mlx5_0",
				},
				links.Link{
					Command: "links", OK: true, From: 1, To: 0, FromHost: "node1", ToHost: "node0", Latency: links.LinkLatency{P50: 3.125, P99: 9.5}, Write: 123.456789, Both: 0.000123,
					Resent: n(123456), Lost: n(12345), RNR: n(1234), Packets: 290000, Device: "ibv:mlx5_0",
				},
				links.Link{
					Command: "links", From: 999, To: 998, FromHost: "node999", ToHost: "node998", Device: "soft:eth0",
					Error: "queue pair 0x000123 to rank 998: RETRY_EXC (12)",
				},
			},
			[]render.Record{links.LinkFinding{
				Command: "links", Finding: "dead", Culprit: "pair", From: []int{999}, To: []int{998}, FromHosts: []string{"node999"}, ToHosts: []string{"node998"}, BothWays: true,
				Ratio: 1, AgainRatio: 1, Partners: 1, Of: 1, Again: 2, Confidence: "certain",
				Text: "only rank 999 (node999) to and from rank 998 (node998) has no connection", Next: "the path between the two",
			}},
			[]render.Record{links.LinkFinding{
				Command: "links", Finding: "slow", Culprit: "group", From: []int{0, 1}, To: []int{2, 3}, FromHosts: []string{"node0", "node1"}, ToHosts: []string{"node2", "node3"},
				Groups: []string{"A", "B"}, Ratio: 0.5, AgainRatio: 0.51, Partners: 4, Of: 4, Spreads: 12.5, Again: 2, Confidence: "suspect",
				Text: "group A to group B at 0.50 of the rest: 4 of 4 pairs", Next: "what joins the two groups",
			}},
			[]render.Record{links.LinksVerdict{
				Command: "links", Mode: "mesh", Ranks: 1000, Pairs: 999000, Rounds: 1024, Again: 25, Seconds: 123.4, Write: 11.8, Both: 10.2, Latency: 3.5, Findings: 2, Ruled: 31, Blind: 12,
			}},
		),
		printing("links well", []render.Record{links.LinksVerdict{
			Command: "links", OK: true, Mode: "shift", Ranks: 2, Pairs: 2, Rounds: 1, Seconds: 0.1, Write: 0.5,
		}}),
	}
}
