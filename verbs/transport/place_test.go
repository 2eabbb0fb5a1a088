package transport

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"ringcli/verbs/memory"
	"ringcli/verbs/pcie"
)

// card is an RDMA device in sysfs: on which node, below how many bridges, and its link.
type card struct {
	name, node string
	bridges    int
	speed      string
}

func sysfs(cards ...card) fstest.MapFS {
	files := fstest.MapFS{
		"sys/devices/system/node/node0/distance": {Data: []byte("10 21 31\n")},
		"sys/devices/system/node/node1/distance": {Data: []byte("21 10 31\n")},
	}
	for i, c := range cards {
		dir := fmt.Sprintf("devices/pci0000:%d0", i)
		for depth := range c.bridges + 1 {
			at := fmt.Sprintf("0000:%d%d:00.0", i, depth)
			dir += "/" + at
			files[pcie.Devices+"/"+at] = &fstest.MapFile{Data: []byte("../../../" + dir), Mode: fs.ModeSymlink}
			for what, value := range map[string]string{"current_link_speed": c.speed, "current_link_width": "16", "numa_node": c.node} {
				files["sys/"+dir+"/"+what] = &fstest.MapFile{Data: []byte(value + "\n")}
			}
		}
		files["sys/class/infiniband/"+c.name+"/device"] = &fstest.MapFile{Data: []byte("../../../" + dir), Mode: fs.ModeSymlink}
	}
	return files
}

// The device that is nearest to memory serves it, and the order says why.
func TestNearest(t *testing.T) {
	files := sysfs(
		card{"far", "1", 1, "32.0 GT/s PCIe"}, card{"slow", "0", 1, "8.0 GT/s PCIe"}, card{"near", "0", 1, "16.0 GT/s PCIe"},
		card{"deep", "0", 3, "16.0 GT/s PCIe"}, card{"nowhere", "-1", 1, "16.0 GT/s PCIe"}, card{"third", "2", 1, "16.0 GT/s PCIe"},
	)
	devices := []string{"ibv:far", "ibv:slow", "ibv:near", "ibv:deep", "ibv:nowhere", "ibv:third", "ibv:rxe0"}
	for at, want := range map[Place]string{
		Node(0): "near deep slow far third nowhere rxe0",
		Node(1): "far near deep slow third nowhere rxe0",
		{}:      "far near nowhere third deep slow rxe0", // anywhere: by the link and the bridges alone
		Node(5): "far near nowhere third deep slow rxe0", // of which the kernel knows no distance
	} {
		list := near(files, at, devices)
		var got []string
		for _, a := range list {
			got = append(got, strings.TrimPrefix(a.Device, "ibv:"))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("from %s: %s, want %s", at, strings.Join(got, " "), want)
		}
	}
	why := near(files, Node(0), devices[:3]).why(Node(0))
	if want := "ibv:near on NUMA node 0, distance 10, PCIe 0000:21:00.0, below 1 bridge, 16 GT/s x16 is nearest to NUMA node 0; then ibv:slow"; !strings.HasPrefix(why, want) || !strings.Contains(why, "ibv:far on NUMA node 1, distance 21") {
		t.Errorf("%s: want %s …", why, want)
	}
	if why := near(files, Place{}, []string{"ibv:rxe0"}).why(Place{}); why != "ibv:rxe0" {
		t.Errorf("of a device without a card: %s", why)
	}
}

// Where memory is, the kernel says, unless it may not.
func TestPlaceOf(t *testing.T) {
	block, err := memory.Alloc(10)
	if err != nil {
		t.Fatal(err)
	}
	block.Bytes()[0] = 1 // it is somewhere once it is touched
	if at, err := PlaceOf(block.Addr()); err != nil || at != (Place{}) && !strings.HasPrefix(at.String(), "NUMA node ") {
		t.Errorf("it is at %s, %v", at, err)
	}
	if err := block.Free(); err != nil {
		t.Fatal(err)
	}
	if at, err := PlaceOf(1); err == nil && at != (Place{}) {
		t.Errorf("memory that is not mapped is at %s", at)
	}
}
