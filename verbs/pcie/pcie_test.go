package pcie

import (
	"fmt"
	"io/fs"
	"math"
	"testing"
	"testing/fstest"
)

// device is a sysfs in which a device has ports above it towards its root, its own first: each is
// what stands in current_link_speed, current_link_width, max_link_speed, max_link_width.
func device(ports ...[4]string) fstest.MapFS {
	files := fstest.MapFS{}
	dir := "devices/pci0000:00"
	for i := len(ports) - 1; i >= 0; i-- {
		address := fmt.Sprintf("0000:0%d:00.0", i+1)
		dir += "/" + address
		for j, name := range []string{"current_link_speed", "current_link_width", "max_link_speed", "max_link_width"} {
			files["sys/"+dir+"/"+name] = &fstest.MapFile{Data: []byte(ports[i][j] + "\n")}
		}
		files[Devices+"/"+address] = &fstest.MapFile{Data: []byte("../../../" + dir), Mode: fs.ModeSymlink}
	}
	files["sys/class/infiniband/mlx5_0/device"] = &fstest.MapFile{Data: []byte("../../../" + dir), Mode: fs.ModeSymlink}
	return files
}

func TestLinks(t *testing.T) {
	full := [4]string{"16.0 GT/s PCIe", "16", "16.0 GT/s PCIe", "16"}
	for _, c := range []struct {
		name      string
		ports     [][4]string
		now, best string
		ok        bool
	}{
		{"as it should be", [][4]string{full, {"16.0 GT/s PCIe", "16", "32.0 GT/s PCIe", "16"}}, "16 GT/s x16", "16 GT/s x16", true},
		{"half of the lanes", [][4]string{{"16.0 GT/s PCIe", "8", "16.0 GT/s PCIe", "16"}, full}, "16 GT/s x8", "16 GT/s x16", true},
		{"faster and narrower than its slot", [][4]string{{"16.0 GT/s PCIe", "8", "32.0 GT/s PCIe", "8"}, full}, "16 GT/s x8", "16 GT/s x8", true},
		{"slow above the switch", [][4]string{full, full, {"8.0 GT/s PCIe", "16", "16.0 GT/s PCIe", "16"}, full}, "8 GT/s x16", "16 GT/s x16", true},
		{"old kernel's words", [][4]string{{"2.5 GT/s", "1", "5 GT/s", "4"}}, "2.5 GT/s x1", "5 GT/s x4", true},
		{"unknown", [][4]string{{"Unknown", "0", "Unknown", "255"}}, "", "", false},
		{"no best", [][4]string{{"8.0 GT/s PCIe", "8", "", ""}}, "8 GT/s x8", "8 GT/s x8", true},
	} {
		files := device(c.ports...)
		place := Find(files, "sys/class/infiniband/mlx5_0")
		if place.Card != "0000:01:00.0" || len(place.Bridges) != len(c.ports)-1 {
			t.Errorf("%s: it is at %v", c.name, place)
		}
		now, best, ok := place.Links(files)
		if ok != c.ok || ok && (now.String() != c.now || best.String() != c.best) {
			t.Errorf("%s: %s, best %s, %v: want %s, %s, %v", c.name, now, best, ok, c.now, c.best, c.ok)
		}
	}
	files := device(full)
	if _, _, ok := Find(files, "sys/class/infiniband/rxe0").Links(files); ok {
		t.Error("a device that is not there has a link")
	}
}

// TestRate: x16 of the fourth generation carries some 28 GB/s each way, which is a port of 200 Gb/s and
// not one of 400.
func TestRate(t *testing.T) {
	for link, want := range map[Link]float64{{16, 16}: 28.6e9, {16, 8}: 14.3e9, {32, 16}: 57.2e9, {8, 8}: 7.15e9, {5, 8}: 3.63e9, {64, 16}: 107.1e9} {
		if got := link.Rate(); math.Abs(got-want) > 0.01*want {
			t.Errorf("%s: %.2f GB/s, want %.2f", link, got/1e9, want/1e9)
		}
	}
}
