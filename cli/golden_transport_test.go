package cli

import (
	"ringcli/cli/render"
	"ringcli/cli/transport"
)

// transportExamples are of a server that listens, and of clients that it has served.
func transportExamples() []example {
	listens := transport.ServeResult{
		Command: "transport serve", OK: true, Listen: "[::]:18700", Port: 18700,
		Device: "ibv:mlx5_0", Why: "ibv:mlx5_0 on NUMA node 0, distance 10, PCIe 0000:41:00.0 is nearest to NUMA node 0", RDMA: true, RDMAWhy: "ibv:mlx5_0: port 1 is active", Token: true,
	}
	served := transport.ServedResult{
		Command: "transport serve", OK: true, Client: "node1.example.org:4711 (192.0.2.17:40123)", Purpose: "bench",
		Device: listens.Device, Why: listens.Why, Seconds: 61.25,
	}
	fallback := listens
	fallback.Listen, fallback.Port, fallback.Device, fallback.Why = "127.0.0.1:40001", 40001, "shm:0", "shm was asked for"
	fallback.RDMA, fallback.RDMAWhy, fallback.Token = false, "ibv: there is no device", false
	failed := served
	failed.OK, failed.Device, failed.Why, failed.Seconds, failed.Error = false, "", "", 0.0125, "nothing was heard of it for 30s: it stands still, or the network is down"
	return []example{printing("transport", []render.Record{listens}, []render.Record{fallback}, []render.Record{served}, []render.Record{failed})}
}
