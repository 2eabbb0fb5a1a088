package devices

import (
	"encoding/json"
	"net/netip"
	"os"
	"strings"
	"testing"

	"ringcli/cli/clitest"
	"ringcli/verbs"
	"ringcli/verbs/ibv/ibvtest"
)

// recordedContext is a device that says what rdma_rxe of Linux 6.1 said when
// ibv_devinfo was recorded.
type recordedContext struct {
	verbs.Context
	device verbs.DeviceAttr
	port   verbs.PortAttr
}

func (recordedContext) Device() verbs.Device                     { return recordedDevice{} }
func (c recordedContext) QueryDevice() (verbs.DeviceAttr, error) { return c.device, nil }
func (c recordedContext) QueryPort(int) (verbs.PortAttr, error)  { return c.port, nil }
func (recordedContext) QueryGID(_, i int) (verbs.GIDEntry, error) {
	addresses := []string{"fe80::5054:ff:fe77:1", "::ffff:10.77.0.1"}
	if i >= len(addresses) {
		return verbs.GIDEntry{}, os.ErrNotExist
	}
	gid := verbs.GID(netip.MustParseAddr(addresses[i]).As16())
	return verbs.GIDEntry{GID: gid, Index: i, Port: 1, Type: verbs.GIDTypeRoCEv2, NetDev: "eth0"}, nil
}

type recordedDevice struct{ verbs.Device }

func (recordedDevice) Name() string { return "ibv:rxe0" }

func recordedRxe() recordedContext {
	return recordedContext{
		device: verbs.DeviceAttr{
			FirmwareVersion: "0.0.0", Transport: "InfiniBand (0)", NodeGUID: 0x505400fffe770001, SysImageGUID: 0x505400fffe770001,
			MaxMRSize: 1<<64 - 1, PageSizeCap: 0xfffff000, VendorID: 0xffffff, CapFlags: 0x01223c76, MaxQP: 1048560, MaxQPWR: 1048576,
			MaxSGE: 32, MaxSGERD: 32, MaxCQ: 1048576, MaxCQE: 32767, MaxMR: 524287, MaxPD: 1048576, MaxQPRDAtomic: 128, MaxResRDAtomic: 258048,
			MaxQPInitRDAtomic: 128, AtomicCap: verbs.AtomicHCA, MaxMW: 524287, MaxMcastGrp: 8192, MaxMcastQPAttach: 56,
			MaxTotalMcastQPAttach: 458752, MaxAH: 32767, MaxSRQ: 917503, MaxSRQWR: 1048576, MaxSRQSGE: 27, MaxPKeys: 64,
			LocalCAAckDelay: 15, PhysPorts: 1,
		},
		port: verbs.PortAttr{
			State: verbs.PortActive, PhysState: "LinkUp", MaxMTU: verbs.MTU4096, ActiveMTU: verbs.MTU1024, GIDTableSz: 1024, PKeyTableSz: 1,
			MaxMsgSz: 0x800000, CapFlags: 0x10000, MaxVLNum: 1, ActiveWidth: 1, ActiveSpeed: 8, LinkLayer: verbs.LinkEthernet,
			NetDev: "eth0", SpeedMbps: 10000,
		},
	}
}

// compareRecorded compares the query of a device with the recorded ibv_devinfo -v.
func compareRecorded(t *testing.T, c recordedContext) (compared int, differences []string) {
	t.Helper()
	f, err := os.Open("../../verbs/ibv/ibvtest/testdata/ibv_devinfo-v.rxe0.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	devices, err := ibvtest.ParseDevices(f)
	if err != nil {
		t.Fatal(err)
	}
	report, err := reportOn(c)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	clitest.ValidateJSON(t, string(text)+"\n")
	compared, differences, err = devices[0].Compare(text)
	if err != nil {
		t.Fatal(err)
	}
	return compared, differences
}

func TestQueryAgreesWithIbvDevinfo(t *testing.T) {
	if compared, differences := compareRecorded(t, recordedRxe()); compared < 60 || len(differences) != 0 {
		t.Errorf("%d fields compared: %q", compared, differences)
	}
	for name, change := range map[string]func(*recordedContext){
		"max_mr_size":      func(c *recordedContext) { c.device.MaxMRSize-- },
		"device_cap_flags": func(c *recordedContext) { c.device.CapFlags |= 1 << 30 }, // a bit without a name
		"atomic_cap":       func(c *recordedContext) { c.device.AtomicCap = verbs.AtomicGlobal },
		"active_mtu":       func(c *recordedContext) { c.port.ActiveMTU = verbs.MTU2048 },
		"phys_state":       func(c *recordedContext) { c.port.PhysState = "Polling" },
		"active_speed":     func(c *recordedContext) { c.port.ActiveSpeed = 4 }, // also 10 Gbit/s
		"GIDs":             func(c *recordedContext) { c.port.GIDTableSz = 1 },
	} {
		c := recordedRxe()
		change(&c)
		if _, differences := compareRecorded(t, c); !strings.Contains(strings.Join(differences, "\n"), name+":") {
			t.Errorf("%s: differences %q", name, differences)
		}
	}
}

// A code without a word keeps its number.
func TestUnknownCodes(t *testing.T) {
	r := ReportPort(1, verbs.PortAttr{State: 6, ActiveSpeed: 1 << 20, CapFlags: 1 << 31, PhysState: "Nirvana"}, nil)
	for _, c := range [][2]string{
		{r.State, "unknown (6)"}, {r.ActiveSpeed, "unknown (1048576)"}, {r.CapFlags.String(), "0x80000000"},
		{r.PhysState, "Nirvana"}, {r.MaxMTU.String(), "unknown (0)"},
	} {
		if c[0] != c[1] {
			t.Errorf("%q, expected %q", c[0], c[1])
		}
	}
}
