package rack

import (
	"fmt"
	"path"
	"strings"
)

// baseModules are what every guest needs, rdmaModules what one with an RDMA device
// needs besides. rdma_rxe asks for "crc32" by name: its generic form, or the
// faster one where the processor has it.
var (
	baseModules = []string{"virtio_pci", "virtio_console", "virtio_rng", "9pnet_virtio", "9p", "overlay",
		"virtio_net", "sch_netem"}
	rdmaModules = []string{"crc32_generic", "crc32-pclmul", "rdma_rxe", "ib_uverbs", "rdma_ucm", "ib_umad"}
)

// modules is what depmod(8) found out about a kernel's modules.
type modules struct {
	files map[string]string   // a module's name: its file, below the version's directory
	needs map[string][]string // a file: the files to load before it, in modules.dep's order
	built map[string]bool     // names of what is in the kernel itself
}

// moduleName is the name of a module from its file's: without suffix, and with
// underscores, as the kernel has it.
func moduleName(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// parseModules reads modules.dep and modules.builtin.
func parseModules(dep, builtin string) modules {
	m := modules{map[string]string{}, map[string][]string{}, map[string]bool{}}
	for line := range strings.Lines(dep) {
		file, needs, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		m.files[moduleName(file)] = file
		m.needs[file] = strings.Fields(needs)
	}
	for _, file := range strings.Fields(builtin) {
		m.built[moduleName(file)] = true
	}
	return m
}

// order lists the files to load for names, each once and after what it needs.
// What have already lists is left out.
func (m modules) order(names []string, have ...string) ([]string, error) {
	var files []string
	seen := map[string]bool{}
	for _, file := range have {
		seen[file] = true
	}
	// modules.dep lists all that a module needs, not only its nearest; those need
	// one another in turn.
	var add func(file string)
	add = func(file string) {
		if seen[file] {
			return
		}
		seen[file] = true
		for _, need := range m.needs[file] {
			add(need)
		}
		files = append(files, file)
	}
	for _, name := range names {
		name = moduleName(name)
		switch file, ok := m.files[name]; {
		case ok:
			add(file)
		case !m.built[name]:
			return nil, fmt.Errorf("the kernel has no module %s", name)
		}
	}
	return files, nil
}
