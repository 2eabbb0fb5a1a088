package cli

import (
	"ringcli/cli/render"
	"ringcli/cli/transport"
)

// transportExamples are of a server that listens, of clients that it has served, and of copies.
func transportExamples() []example {
	listens := transport.ServeResult{
		Command: "transport serve", OK: true, Listen: "[::]:18700", Port: 18700,
		Device: "ibv:mlx5_0", Why: "ibv:mlx5_0 on NUMA node 0, distance 10, PCIe 0000:41:00.0 is nearest to NUMA node 0", RDMA: true, RDMAWhy: "ibv:mlx5_0: port 1 is active", Token: true, Dir: "/data",
	}
	served := transport.ServedResult{
		Command: "transport serve", OK: true, Client: "node1.example.org:4711 (192.0.2.17:40123)", Purpose: "bench",
		Device: listens.Device, Why: listens.Why, Seconds: 61.25,
	}
	fallback := listens
	fallback.Listen, fallback.Port, fallback.Device, fallback.Why = "127.0.0.1:40001", 40001, "shm:0", "shm was asked for"
	fallback.Dir = ""
	fallback.RDMA, fallback.RDMAWhy, fallback.Token = false, "ibv: there is no device", false
	failed := served
	failed.OK, failed.Device, failed.Why, failed.Seconds, failed.Error = false, "", "", 0.0125, "nothing was heard of it for 30s: it stands still, or the network is down"
	copied := served
	copied.Purpose, copied.Bytes = "copy", 1<<30
	whole := transport.CopyResult{
		Command: "copy", OK: true, From: "checkpoint-00001234.safetensors", To: "node0:checkpoints/", Bytes: 8 << 30, Resumed: 3 << 30, Seconds: 0.625, BW: 8.589935,
		SHA256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", Device: listens.Device, Why: listens.Why, PeerDevice: "ibv:mlx5_3", PeerWhy: "ibv:mlx5_3 was asked for",
	}
	anew := whole
	anew.Resumed = 0
	return []example{printing("copy", []render.Record{whole}, []render.Record{anew}), printing("transport", []render.Record{listens, fallback}, []render.Record{served}, []render.Record{copied}, []render.Record{failed})}
}
