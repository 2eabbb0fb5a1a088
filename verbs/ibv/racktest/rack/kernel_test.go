//go:build linux

package rack

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUntarKernel(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range []string{
		"./boot/vmlinuz-6.1.0-1-amd64",
		"./boot/config-6.1.0-1-amd64",
		"./lib/modules/6.1.0-1-amd64/modules.builtin",
		"./lib/modules/6.1.0-1-amd64/kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko",
		"./usr/lib/modules/6.1.0-1-amd64/kernel/fs/9p/9p.ko.xz",
		"./lib/modules/6.1.0-1-amd64/kernel/net/wireless/cfg80211.ko",
		"./lib/modules/6.1.0-1-amd64/kernel/drivers/gpu/drm/drm.ko",
		"./lib/modules/6.1.0-1-amd64/kernel/net/../../../../../../outside.ko",
		"./usr/share/doc/linux-image/copyright",
	} {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(name))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "kernel")
	image, err := untarKernel(&b, dir)
	if err != nil || string(image) != "./boot/vmlinuz-6.1.0-1-amd64" {
		t.Fatalf("image %q, %v", image, err)
	}
	var got []string
	err = filepath.WalkDir(filepath.Dir(dir), func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			got = append(got, e.Name())
		}
		return err
	})
	if want := "rdma_rxe.ko 9p.ko.xz modules.builtin"; err != nil || strings.Join(got, " ") != want {
		t.Errorf("unpacked %v, %v; want %s", got, err, want)
	}
}

func TestBzPayload(t *testing.T) {
	image := make([]byte, 4096)
	image[0x1f1] = 1 // sectors of setup, so that it ends at 1024
	copy(image[0x202:], "HdrS")
	binary.LittleEndian.PutUint32(image[0x248:], 100)
	binary.LittleEndian.PutUint32(image[0x24c:], 11)
	copy(image[1124:], "payloadSIZE")
	if got, ok := bzPayload(image); !ok || string(got) != "payload" {
		t.Errorf("%q, %v", got, ok)
	}
	// What holds no kernel that can be unpacked is booted as it is.
	if got := vmlinux(t.Context(), image); !bytes.Equal(got, image) {
		t.Errorf("%d bytes, want the image's %d", len(got), len(image))
	}
	binary.LittleEndian.PutUint32(image[0x24c:], 1<<31)
	for name, image := range map[string][]byte{"a payload beyond the end": image, "no header": image[:100], "another file": make([]byte, 4096)} {
		if _, ok := bzPayload(image); ok {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestOpenKernel(t *testing.T) {
	dir := t.TempDir()
	if _, err := openKernel(dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("an empty directory: %v", err)
	}
	modules := filepath.Join(dir, "lib/modules/6.1.0-1-amd64")
	if err := os.MkdirAll(modules, 0o755); err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{"modules.dep": testDep, "modules.builtin": "kernel/drivers/virtio/virtio.ko\n"} {
		if err := os.WriteFile(filepath.Join(modules, file), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	k, err := openKernel(dir)
	if err != nil || k.version != "6.1.0-1-amd64" {
		t.Fatalf("%+v, %v", k, err)
	}
	m, err := k.modules()
	if err != nil || m.files["rdma_rxe"] == "" || !m.built["virtio"] {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestKernelPackageOfApt(t *testing.T) {
	out := "linux-image-amd64\n  Depends: linux-image-6.1.0-56-amd64\n  Conflicts: x\n"
	if m := kernelDepends.FindStringSubmatch(out); m == nil || m[1] != "linux-image-6.1.0-56-amd64" {
		t.Errorf("%q", m)
	}
}
