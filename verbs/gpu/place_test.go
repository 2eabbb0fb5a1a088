package gpu

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"ringcli/verbs"
	"ringcli/verbs/pcie"
)

func TestPlaces(t *testing.T) {
	for text, want := range map[string]Place{"host": {}, "cuda": {Kind: CUDA}, "cuda:3": {CUDA, 3}, "hip:0": {Kind: HIP}, "hip:12": {HIP, 12}} {
		got, err := ParsePlace(text)
		if err != nil || got != want {
			t.Errorf("%q is %v, %v: expected %v", text, got, err, want)
		}
		if again, err := ParsePlace(got.String()); err != nil || again != got {
			t.Errorf("%q, written as %q, is %v, %v", text, got, again, err)
		}
	}
	for _, text := range []string{"", "host:0", "cuda:", "cuda:-1", "cuda:x", "cuda:0:1", "rocm:0", "cuda:70000", "CUDA:0"} {
		if p, err := ParsePlace(text); !errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), "expected host") {
			t.Errorf("%q is %v, %v: expected what was expected", text, p, err)
		}
	}
}

// machine is a sysfs with these devices, by their paths below sys/devices, and NUMA nodes.
func machine(paths map[string]string) fstest.MapFS {
	files := fstest.MapFS{}
	for path, node := range paths {
		card := path[strings.LastIndex(path, "/")+1:]
		files[pcie.Devices+"/"+card] = &fstest.MapFile{Data: []byte("../../../devices/" + path), Mode: fs.ModeSymlink}
		files["sys/devices/"+path+"/numa_node"] = &fstest.MapFile{Data: []byte(node + "\n")}
	}
	return files
}

func TestAdaptersBeside(t *testing.T) {
	const below = "pci0000:10/0000:10:01.0/0000:11:00.0/"
	files := machine(map[string]string{
		below + "0000:12:00.0/0000:13:00.0":                           "0", // the GPU: below port 12:00.0 of a switch
		below + "0000:12:01.0/0000:14:00.0":                           "0", // another port of the switch
		below + "0000:12:02.0/0000:15:00.0/0000:16:00.0/0000:17:00.0": "0", // a switch below that switch
		"pci0000:10/0000:10:02.0/0000:18:00.0":                        "0", // another root port
		"pci0000:20/0000:20:01.0/0000:21:00.0":                        "0", // another host bridge
		"pci0000:80/0000:80:01.0/0000:81:00.0":                        "1", // another NUMA node
	})
	for i, card := range []string{"0000:14:00.0", "0000:17:00.0", "0000:18:00.0", "0000:21:00.0", "0000:81:00.0"} {
		files["sys/class/infiniband/mlx5_"+string(rune('0'+i))+"/device"] = &fstest.MapFile{Data: []byte("../../../" + card), Mode: fs.ModeSymlink}
	}
	files["sys/class/infiniband/rxe0/ports"] = &fstest.MapFile{Mode: fs.ModeDir} // of no card
	var got []string
	for _, a := range adaptersBeside(files, "0000:13:00.0") {
		got = append(got, a.Device+" "+a.Distance.String())
	}
	want := []string{"ibv:mlx5_0 PIX", "ibv:mlx5_1 PXB", "ibv:mlx5_2 PHB", "ibv:mlx5_3 NODE", "ibv:mlx5_4 SYS"}
	if !slices.Equal(got, want) {
		t.Errorf("%q: expected %q", got, want)
	}
	if all := adaptersBeside(files, "none"); len(all) != 0 {
		t.Errorf("a GPU that is on no PCIe is beside %v", all)
	}
}

func TestArchitectureOfAMD(t *testing.T) {
	files := fstest.MapFS{
		nodes + "/0/properties": {Data: []byte("cpu_cores_count 64\ngfx_target_version 0\nlocation_id 0\ndomain 0\n")},
		nodes + "/1/properties": {Data: []byte("gfx_target_version 90402\nlocation_id 49920\ndomain 0\n")},
		nodes + "/2/properties": {Data: []byte("gfx_target_version 90010\nlocation_id 49920\ndomain 1\n")},
	}
	for card, want := range map[string]string{"0000:c3:00.0": "gfx942", "0001:c3:00.0": "gfx90a", "0000:c4:00.0": "", "none": ""} {
		if got := gfx(files, card); got != want {
			t.Errorf("%s is %q: expected %q", card, got, want)
		}
	}
}
