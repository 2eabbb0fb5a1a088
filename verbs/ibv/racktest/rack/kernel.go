//go:build linux

package rack

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// kernel is a directory with an unpacked Debian kernel:
//
//	vmlinux                  the kernel, uncompressed where that was possible
//	lib/modules/VERSION/     its modules, with depmod's tables
type kernel struct {
	dir, version string
}

func (k kernel) image() string      { return filepath.Join(k.dir, "vmlinux") }
func (k kernel) modulesDir() string { return filepath.Join(k.dir, "lib/modules", k.version) }

func (k kernel) modules() (modules, error) {
	dep, err := os.ReadFile(filepath.Join(k.modulesDir(), "modules.dep"))
	if err != nil {
		return modules{}, err
	}
	builtin, err := os.ReadFile(filepath.Join(k.modulesDir(), "modules.builtin"))
	if err != nil {
		return modules{}, err
	}
	return parseModules(string(dep), string(builtin)), nil
}

// findKernel returns the kernel of the cache, which it fills where it is empty.
// It keeps a lock meanwhile, and a kernel is in the cache whole or not at all.
func findKernel(ctx context.Context, log io.Writer) (kernel, error) {
	base, err := os.UserCacheDir() // $XDG_CACHE_HOME, else ~/.cache
	if err != nil {
		return kernel{}, fmt.Errorf("no cache directory for the kernel: %w", err)
	}
	cache := filepath.Join(base, "ringcli-rack")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return kernel{}, err
	}
	lock, err := os.OpenFile(filepath.Join(cache, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return kernel{}, err
	}
	defer func() { _ = lock.Close() }() // and with it the lock
	if err := lockFile(ctx, lock); err != nil {
		return kernel{}, fmt.Errorf("waiting for another run to fill %s: %w", cache, err)
	}
	found, err := filepath.Glob(filepath.Join(cache, "linux-image-*", "vmlinux"))
	if err != nil {
		return kernel{}, err
	}
	if len(found) > 0 {
		return openKernel(filepath.Dir(found[len(found)-1]))
	}
	_, _ = fmt.Fprintf(log, "rack: downloading Debian's kernel into %s\n", cache)
	dir, err := fillCache(ctx, cache)
	if err != nil {
		// The package lists may be missing, or name a file that is no longer there.
		if out, updated := exec.CommandContext(ctx, "apt-get", "-q", "update").CombinedOutput(); updated != nil {
			return kernel{}, errors.Join(err, fmt.Errorf("apt-get update: %w: %s", updated, bytes.TrimSpace(out)))
		}
		if dir, err = fillCache(ctx, cache); err != nil {
			return kernel{}, err
		}
	}
	return openKernel(dir)
}

// fillCache puts the kernel into the cache and returns its directory.
func fillCache(ctx context.Context, cache string) (string, error) {
	name, err := kernelPackage(ctx)
	if err != nil {
		return "", err
	}
	unpacking := filepath.Join(cache, "unpacking")
	if err := os.RemoveAll(unpacking); err != nil { // of a run that was killed
		return "", err
	}
	defer func() { _ = os.RemoveAll(unpacking) }()
	if err := fetchKernel(ctx, name, unpacking); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	dir := filepath.Join(cache, name)
	return dir, os.Rename(unpacking, dir)
}

func openKernel(dir string) (kernel, error) {
	versions, err := filepath.Glob(filepath.Join(dir, "lib/modules/*/modules.dep"))
	if err != nil || len(versions) != 1 {
		return kernel{}, fmt.Errorf("%s holds %d kernels' modules, expected is 1: remove it, the next run makes it anew", dir, len(versions))
	}
	return kernel{dir, filepath.Base(filepath.Dir(versions[0]))}, nil
}

var kernelDepends = regexp.MustCompile(`Depends: (linux-image-[0-9]\S*)`)

// kernelPackage asks apt for the kernel that Debian's linux-image-amd64 stands
// for. (linux-image-cloud-amd64 is smaller, and lacks rdma_rxe and 9p.)
func kernelPackage(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "apt-cache", "depends", "linux-image-amd64").CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return "", errors.New("the virtual machines' kernel comes from Debian, and apt-cache is not here: run this on Debian 12 or its like")
	}
	if m := kernelDepends.FindSubmatch(out); m != nil {
		return string(m[1]), nil
	}
	return "", fmt.Errorf("apt knows no package linux-image-amd64: %s", bytes.TrimSpace(out))
}

// fetchKernel downloads the package and unpacks what is wanted of it into dir.
// Nothing is installed.
func fetchKernel(ctx context.Context, name, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// Root need not become _apt, which may not write here.
	get := exec.CommandContext(ctx, "apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", name)
	get.Dir = dir
	if out, err := get.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get download: %w: %s", err, bytes.TrimSpace(out))
	}
	debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(debs) != 1 {
		return fmt.Errorf("apt-get has downloaded %d packages, expected is 1", len(debs))
	}
	unpack := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", debs[0])
	var stderr bytes.Buffer
	unpack.Stderr = &stderr
	pipe, err := unpack.StdoutPipe()
	if err != nil {
		return err
	}
	if err := unpack.Start(); err != nil {
		return err
	}
	bzImage, err := untarKernel(pipe, dir)
	_, _ = io.Copy(io.Discard, pipe) // after an error too, or dpkg-deb waits
	if waited := unpack.Wait(); err == nil && waited != nil {
		err = fmt.Errorf("dpkg-deb: %w: %s", waited, bytes.TrimSpace(stderr.Bytes()))
	}
	if err != nil {
		return err
	}
	if err := os.Remove(debs[0]); err != nil {
		return err
	}
	versions, err := os.ReadDir(filepath.Join(dir, "lib/modules"))
	if err != nil || len(versions) != 1 || bzImage == nil {
		return fmt.Errorf("the package does not hold one kernel and its modules: %d modules' directories, an image of %d bytes", len(versions), len(bzImage))
	}
	if out, err := exec.CommandContext(ctx, sbin("depmod"), "-b", dir, versions[0].Name()).CombinedOutput(); err != nil {
		return fmt.Errorf("depmod (package kmod): %w: %s", err, bytes.TrimSpace(out))
	}
	return os.WriteFile(filepath.Join(dir, "vmlinux"), vmlinux(ctx, bzImage), 0o644)
}

// wantedModules are the parts of a kernel that a guest may ever load. The rest is
// nine tenths of the package.
var wantedModules = regexp.MustCompile(`^lib/modules/[^/]+/(modules\.[a-z.]+|kernel/(arch|crypto|lib|fs|net|drivers/(infiniband|virtio|char|block|net))/.*)$`)
var unwantedModules = regexp.MustCompile(`/(wireless|mac80211|bluetooth|ethernet/(broadcom|intel|qlogic|chelsio|sfc|netronome))/`)

// untarKernel unpacks the wanted modules into dir and returns the kernel's image.
func untarKernel(r io.Reader, dir string) (bzImage []byte, err error) {
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return bzImage, nil
		}
		if err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(strings.TrimPrefix(h.Name, "./"), "usr/")
		switch {
		case h.Typeflag != tar.TypeReg:
		case strings.HasPrefix(name, "boot/vmlinuz-"):
			if bzImage, err = io.ReadAll(t); err != nil {
				return nil, err
			}
		case filepath.IsLocal(name) && wantedModules.MatchString(name) && !unwantedModules.MatchString(name):
			if err := untarFile(t, filepath.Join(dir, name)); err != nil {
				return nil, err
			}
		}
	}
}

func untarFile(r io.Reader, name string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, r); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

// vmlinux is the kernel inside a bzImage, which QEMU starts as it is: that saves
// every guest the decompression, half of the boot under emulation. The bzImage
// itself is returned where it holds no ELF file packed with xz.
func vmlinux(ctx context.Context, bzImage []byte) []byte {
	payload, ok := bzPayload(bzImage)
	if !ok {
		return bzImage
	}
	unpack := exec.CommandContext(ctx, "xz", "-dc", "--single-stream")
	unpack.Stdin = bytes.NewReader(payload)
	// An error may be about what follows the stream; the ELF header decides.
	image, _ := unpack.Output()
	if f, err := elf.NewFile(bytes.NewReader(image)); err != nil || f.Machine != elf.EM_X86_64 {
		return bzImage
	}
	return image
}

// bzPayload finds the compressed kernel in a bzImage, by the fields of its setup
// header (Documentation/arch/x86/boot.rst).
func bzPayload(image []byte) ([]byte, bool) {
	const (
		setupSects    = 0x1f1 // in sectors of 512 bytes, without the boot sector
		magic         = 0x202
		payloadOffset = 0x248 // from the end of the setup
		payloadLength = 0x24c
		sizeTrailer   = 4 // the length of what is packed, after it
	)
	if len(image) < payloadLength+4 || string(image[magic:magic+4]) != "HdrS" {
		return nil, false
	}
	start := (uint64(image[setupSects])+1)*512 + uint64(binary.LittleEndian.Uint32(image[payloadOffset:]))
	length := uint64(binary.LittleEndian.Uint32(image[payloadLength:]))
	if length < sizeTrailer || start+length > uint64(len(image)) {
		return nil, false
	}
	return image[start : start+length-sizeTrailer], true
}

// lockFile waits for the file's lock, which ends with the file.
func lockFile(ctx context.Context, f *os.File) error {
	return poll(ctx, func() (bool, error) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return false, nil
		}
		return err == nil, err
	})
}

// sbin finds an administrator's program, which a user's PATH need not have.
func sbin(name string) string {
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if path := filepath.Join(dir, name); unix.Access(path, unix.X_OK) == nil {
			return path
		}
	}
	return name
}
