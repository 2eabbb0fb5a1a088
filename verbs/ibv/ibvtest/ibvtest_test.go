package ibvtest

import (
	"net/netip"
	"os"
	"strings"
	"testing"
)

func open(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func recorded(t *testing.T) Device {
	t.Helper()
	devices, err := ParseDevices(open(t, "ibv_devinfo-v.rxe0.txt"))
	if err != nil || len(devices) != 1 || len(devices[0].Ports) != 1 {
		t.Fatalf("%+v, %v", devices, err)
	}
	return devices[0]
}

func TestParse(t *testing.T) {
	d := recorded(t)
	for name, want := range map[string]string{
		"transport": "InfiniBand (0)", "max_mr_size": "0xffffffffffffffff", "atomic_cap": "ATOMIC_HCA (1)", "local_ca_ack_delay": "15",
	} {
		if d.Fields[name] != want {
			t.Errorf("%s: %q, expected %q", name, d.Fields[name], want)
		}
	}
	if flags := d.Flags["device_cap_flags"]; len(flags) != 12 || flags[0] != "BAD_PKEY_CNTR" || flags[11] != "MEM_WINDOW_TYPE_2B" {
		t.Errorf("flags %v", flags)
	}
	p := d.Ports[0]
	if d.ID != "rxe0" || p.Number != 1 || p.Fields["active_speed"] != "10.0 Gbps (8)" || p.Fields["active_mtu"] != "1024 (3)" {
		t.Errorf("%s: %+v", d.ID, p)
	}
	if want := (GID{1, netip.MustParseAddr("::ffff:10.77.0.1"), "RoCE v2"}); len(p.GIDs) != 2 || p.GIDs[1] != want {
		t.Errorf("GIDs %v", p.GIDs)
	}
	for _, bad := range []string{"", "No IB devices found\n", "hca_id:\tx\n\t\tport:\tone\n", "hca_id: x\n port: 1\n GID[  0]: nonsense\n"} {
		if devices, err := ParseDevices(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is %+v", bad, devices)
		}
	}
}

func TestSame(t *testing.T) {
	for _, c := range []struct {
		devinfo, query string
		want           bool
	}{
		{"0xffffffffffffffff", `18446744073709551615`, true},
		{"0xffffffffffffffff", `18446744073709551614`, false},
		{"1024 (3)", `1024`, true},
		{"1024 (3)", `3`, false},
		{"0x00010000", `65536`, true},
		{"PORT_ACTIVE (4)", `"PORT_ACTIVE (4)"`, true},
		{"PORT_ACTIVE (4)", `"PORT_DOWN (1)"`, false},
		{"invalid speed (128)", `"100.0 Gbps (128)"`, true},
		{"invalid speed (128)", `"100.0 Gbps (256)"`, false},
		{"12", `null`, false},
	} {
		n, differences, err := compareFields("", map[string]string{"x": c.devinfo}, []byte(`{"x":`+c.query+`}`))
		if err != nil || n != 1 || (len(differences) == 0) != c.want {
			t.Errorf("%s and %s: %v, %v", c.devinfo, c.query, differences, err)
		}
	}
}

const statusLines = `{"command":"status","ok":true,"rank":0,"step":"open"}
{"command":"status","ok":true,"side":"left","whose":"own","rank":0,"device":"ibv:rxe0","qpn":17,"qp_state":"RTS","dest_qpn":18,"rq_psn":1604706,"sq_psn":14930587}
{"command":"status","ok":true,"side":"left","whose":"peer","rank":1,"device":"ibv:rxe0","qpn":17,"qp_state":"ERR"}
{"command":"status","ok":true,"side":"right","rank":0,"device":"ibv:rxe0","qpn":18,"qp_state":"RTS","peer_qpn":17,"rq_psn":14930587,"sq_psn":1604706}
`

func TestCompareQPs(t *testing.T) {
	kernel, err := ParseQPs(open(t, "rdma-resource-show-qp.json"))
	if err != nil || len(kernel) != 3 {
		t.Fatalf("%+v, %v", kernel, err)
	}
	n, differences, err := CompareQPs(kernel, 0, strings.NewReader(statusLines))
	if n != 2 || len(differences) != 0 || err != nil {
		t.Errorf("%d compared, %v, %v", n, differences, err)
	}
	for old, changed := range map[string]string{
		`"qpn":18`: `"qpn":19`, `"dest_qpn":18`: `"dest_qpn":17`, `"qp_state":"RTS","peer`: `"qp_state":"SQD","peer`,
		`"rq_psn":1604706`: `"rq_psn":1604707`, `"sq_psn":1604706`: `"sq_psn":0`, `ibv:rxe0","qpn":18`: `ibv:rxe1","qpn":18`,
	} {
		n, differences, err := CompareQPs(kernel, 0, strings.NewReader(strings.Replace(statusLines, old, changed, 1)))
		if n != 2 || len(differences) != 1 || err != nil {
			t.Errorf("%s: %d compared, %v, %v", changed, n, differences, err)
		}
	}
}
