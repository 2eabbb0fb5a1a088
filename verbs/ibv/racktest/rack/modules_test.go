package rack

import (
	"slices"
	"strings"
	"testing"
)

const testDep = `kernel/lib/crc32c.ko:
kernel/net/ipv6/ip6_udp_tunnel.ko:
kernel/net/ipv4/udp_tunnel.ko:
kernel/drivers/infiniband/core/ib_core.ko.xz: kernel/lib/crc32c.ko
kernel/drivers/infiniband/core/ib_uverbs.ko: kernel/drivers/infiniband/core/ib_core.ko.xz kernel/lib/crc32c.ko
kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko: kernel/drivers/infiniband/core/ib_uverbs.ko kernel/net/ipv6/ip6_udp_tunnel.ko kernel/net/ipv4/udp_tunnel.ko kernel/drivers/infiniband/core/ib_core.ko.xz kernel/lib/crc32c.ko
kernel/arch/x86/crypto/crc32-pclmul.ko:
`

func TestModuleOrder(t *testing.T) {
	m := parseModules(testDep, "kernel/drivers/virtio/virtio_pci.ko\n")
	base, err := m.order([]string{"virtio_pci", "ip6_udp_tunnel"})
	if err != nil || len(base) != 1 {
		t.Fatal(base, err)
	}
	got, err := m.order([]string{"rdma_rxe", "crc32_pclmul", "ib_uverbs"}, base...)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range got {
		names = append(names, moduleName(file))
	}
	if len(names) != 6 || slices.Contains(names, "ip6_udp_tunnel") {
		t.Errorf("%v: want six, each once, without what was there", names)
	}
	for _, pair := range [][2]string{{"crc32c", "ib_core"}, {"ib_core", "ib_uverbs"}, {"ib_uverbs", "rdma_rxe"}, {"udp_tunnel", "rdma_rxe"}} {
		if before, after := slices.Index(names, pair[0]), slices.Index(names, pair[1]); before < 0 || before > after {
			t.Errorf("%v: want %s before %s", names, pair[0], pair[1])
		}
	}
	if _, err := m.order([]string{"siw"}); err == nil || !strings.Contains(err.Error(), "siw") {
		t.Errorf("a module that is not there: %v", err)
	}
}
