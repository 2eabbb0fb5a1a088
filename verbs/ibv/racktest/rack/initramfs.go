//go:build linux

package rack

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// writeInitramfs writes what the kernel unpacks into its first root: the guest's
// program as /init, and the modules with their order.
func writeInitramfs(file string, k kernel, guest string) error {
	init, err := os.ReadFile(guest)
	if err != nil {
		return err
	}
	m, err := k.modules()
	if err != nil {
		return err
	}
	base, err := m.order(baseModules)
	if err != nil {
		return err
	}
	rdma, err := m.order(rdmaModules, base...)
	if err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	c := cpio{w: f}
	for _, dir := range []string{"dev", "modules"} {
		c.entry(dir, cpioDir|0o755, 0, 0, nil)
	}
	// What the kernel opens as standard input, output and error of /init.
	c.entry("dev/console", cpioCharDev|0o600, 5, 1, nil)
	c.entry("init", cpioFile|0o755, 0, 0, init)
	for list, files := range map[string][]string{"base": base, "rdma": rdma} {
		var names strings.Builder
		for _, name := range files {
			content, err := readModule(filepath.Join(k.modulesDir(), name))
			if err != nil {
				_ = f.Close()
				return err
			}
			name, _, _ = strings.Cut(path.Base(name), ".ko")
			c.entry("modules/"+name+".ko", cpioFile|0o644, 0, 0, content)
			fmt.Fprintln(&names, name+".ko")
		}
		c.entry("modules/"+list, cpioFile|0o644, 0, 0, []byte(names.String()))
	}
	if err := c.close(); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

// readModule reads a module, decompressed: newer Debian kernels pack each.
func readModule(file string) ([]byte, error) {
	if !strings.HasSuffix(file, ".xz") {
		return os.ReadFile(file)
	}
	return exec.Command("xz", "-dc", file).Output()
}

// buildGuest builds the guest's program, static, from this module's source.
func buildGuest(file string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", file, "ringcli/verbs/ibv/racktest/rack/guest")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the guest's program (run this inside the module, with go in PATH): %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
