package pcie

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

// device makes a sysfs in which a device has links towards its root, the own first: each is
// what stands in current_link_speed, current_link_width, max_link_speed, max_link_width.
func device(t *testing.T, links ...[4]string) {
	t.Helper()
	was := Root
	t.Cleanup(func() { Root = was })
	Root = t.TempDir()
	dir := filepath.Join(Root, "devices/pci0000:00")
	for i := len(links) - 1; i >= 0; i-- {
		dir = filepath.Join(dir, "0000:0"+string(rune('1'+i))+":00.0")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for j, name := range []string{"current_link_speed", "current_link_width", "max_link_speed", "max_link_width"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(links[i][j]+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	class := filepath.Join(Root, "class/infiniband/mlx5_0")
	if err := os.MkdirAll(class, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, filepath.Join(class, "device")); err != nil {
		t.Fatal(err)
	}
}

func TestOf(t *testing.T) {
	full := [4]string{"16.0 GT/s PCIe", "16", "16.0 GT/s PCIe", "16"}
	for _, c := range []struct {
		name      string
		links     [][4]string
		now, best string
		ok        bool
	}{
		{"as it should be", [][4]string{full, {"16.0 GT/s PCIe", "16", "32.0 GT/s PCIe", "16"}}, "16 GT/s x16", "16 GT/s x16", true},
		{"half of the lanes", [][4]string{{"16.0 GT/s PCIe", "8", "16.0 GT/s PCIe", "16"}, full}, "16 GT/s x8", "16 GT/s x16", true},
		{"slow above the switch", [][4]string{full, {"8.0 GT/s PCIe", "16", "16.0 GT/s PCIe", "16"}}, "8 GT/s x16", "16 GT/s x16", true},
		{"old kernel's words", [][4]string{{"2.5 GT/s", "1", "5 GT/s", "4"}}, "2.5 GT/s x1", "5 GT/s x4", true},
		{"unknown", [][4]string{{"Unknown", "0", "Unknown", "255"}}, "", "", false},
		{"no best", [][4]string{{"8.0 GT/s PCIe", "8", "", ""}}, "8 GT/s x8", "8 GT/s x8", true},
	} {
		device(t, c.links...)
		now, best, ok := Of("mlx5_0")
		if ok != c.ok || ok && (now.String() != c.now || best.String() != c.best) {
			t.Errorf("%s: %s, best %s, %v: want %s, %s, %v", c.name, now, best, ok, c.now, c.best, c.ok)
		}
	}
	if _, _, ok := Of("rxe0"); ok {
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
