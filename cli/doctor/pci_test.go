package doctor

import (
	"encoding/binary"
	"testing"

	"ringcli/configs/codes"
)

var pciCases = []provocation{
	{"PCIe trained down", func(t *testing.T, f *fake) { f.lanes("8.0 x8", "16.0 x16", "16.0 x16") }, "pcie", Warn, codes.Slow, "8 GT/s x8, 63 Gbit/s", "lspci -vv -s " + card},
	{"fewer lanes", func(t *testing.T, f *fake) { f.lanes("16.0 x8", "16.0 x16", "32.0 x16") }, "pcie", Warn, codes.Slow, "16 GT/s x8, 126 Gbit/s", "lspci"},
	{"a slower slot that is enough", func(t *testing.T, f *fake) { f.lanes("16.0 x8", "32.0 x16", "16.0 x8") }, "pcie", Pass, "", "126 Gbit/s", ""},
	{"a slower slot", func(t *testing.T, f *fake) { f.lanes("8.0 x8", "32.0 x16", "8.0 x8") }, "pcie", Warn, codes.Slow, "63 Gbit/s", "lspci"},
	{"virtio", func(t *testing.T, f *fake) { f.remove("sys/class/infiniband/mlx5_0/device") }, "pcie", Skip, "", "no PCIe link", ""},
	{"ACS beside a GPU", func(t *testing.T, f *fake) {
		f.write("sys/devices/pci0000:3a/"+bridge+"/config", string(acs(0x1d)))
		f.write("sys/bus/pci/devices/"+gpu+"/class", "0x030200")
	}, "acs", Warn, codes.LocalProtection, "redirects", "for b in " + bridge + "; do setpci -s $b ECAP_ACS+6.w=0"},
	{"ACS without", func(t *testing.T, f *fake) { f.write("sys/devices/pci0000:3a/"+bridge+"/config", string(acs(0x1d))) }, "acs", Pass, "", "no GPU", ""},
	{"ACS for root to see", func(t *testing.T, f *fake) {
		f.write("sys/devices/pci0000:3a/"+bridge+"/config", string(make([]byte, 64)))
	}, "acs", Skip, "", "root alone", ""},
	{"a loop of capabilities", func(t *testing.T, f *fake) {
		b := make([]byte, 4096)
		binary.LittleEndian.PutUint32(b[0x100:], 0x10010001)
		f.write("sys/devices/pci0000:3a/"+bridge+"/config", string(b))
	}, "acs", Pass, "", "off at " + bridge, ""},
	{"no bridge", func(_ *testing.T, f *fake) { f.software() }, "acs", Skip, "", "no bridge", ""},
}
