// Package ibvtest reads what the stock tools say of RDMA devices, `ibv_devinfo -v`
// (rdma-core) and `rdma resource show qp -j` (iproute2), and compares it with what
// ringcli says. It serves tests.
package ibvtest
