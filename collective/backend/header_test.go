package backend

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ringcli/collective/reduce"
)

// headers are where a vendor's package brings its header, as it is included.
var headers = []struct {
	name  string
	flags []string
}{
	{"nccl.h", []string{"-I/usr/local/cuda/include"}},
	{"rccl/rccl.h", []string{"-I/opt/rocm/include", "-D__HIP_PLATFORM_AMD__"}},
}

// theirs are the names of our types and reductions in nccl.h.
var (
	theirTypes = map[reduce.Type]string{
		reduce.Int8: "ncclInt8", reduce.Uint8: "ncclUint8", reduce.Int32: "ncclInt32", reduce.Uint32: "ncclUint32", reduce.Int64: "ncclInt64",
		reduce.Uint64: "ncclUint64", reduce.Float16: "ncclFloat16", reduce.Float32: "ncclFloat32", reduce.Float64: "ncclFloat64", reduce.BFloat16: "ncclBfloat16",
	}
	theirOps = map[reduce.Op]string{reduce.Sum: "ncclSum", reduce.Prod: "ncclProd", reduce.Max: "ncclMax", reduce.Min: "ncclMin", reduce.Avg: "ncclAvg"}
)

// Numbers and layouts are those of the vendors' headers, where this machine has them.
func TestHeaders(t *testing.T) {
	var asserts strings.Builder
	assert := func(format string, args ...any) {
		fmt.Fprintf(&asserts, "_Static_assert("+format+", \"\");\n", args...)
	}
	for _, typ := range reduce.Types() {
		assert("%s == %d", theirTypes[typ], dataTypes[typ].value)
	}
	for _, op := range reduce.Ops() {
		assert("%s == %d", theirOps[op], redOps[op].value)
	}
	for code, name := range codeNames[:inProgress+1] { // what came later an older header has not
		assert("%s == %d", name, code)
	}
	assert("sizeof(ncclUniqueId) == %d", idBytes)
	assert("NCCL_VERSION(2,7,8) == 2708 && NCCL_VERSION(2,27,3) == 22703")
	assert("offsetof(ncclConfig_t, size) == 0 && offsetof(ncclConfig_t, magic) == 8 && offsetof(ncclConfig_t, version) == 12 && offsetof(ncclConfig_t, blocking) == 16")
	assert("sizeof(ncclConfig_t) >= %d", configBytes)
	checked := 0
	for _, h := range headers {
		source := filepath.Join(t.TempDir(), "header.c")
		include := "#include <stddef.h>\n#include <" + h.name + ">\n"
		compile := func(text string) ([]byte, error) {
			if err := os.WriteFile(source, []byte(include+text), 0o600); err != nil {
				t.Fatal(err)
			}
			args := append(slices.Clone(h.flags), "-std=c11", "-fsyntax-only", source)
			for _, folder := range slices.Backward(filepath.SplitList(os.Getenv("RINGTEST_GPU_INCLUDE"))) {
				args = append([]string{"-I" + folder}, args...) // before the machine's
			}
			return exec.CommandContext(t.Context(), "cc", args...).CombinedOutput()
		}
		if out, err := compile(""); err != nil {
			t.Logf("%s is not compared: %v\n%s", h.name, err, out)
			continue
		}
		if out, err := compile(asserts.String()); err != nil {
			t.Errorf("%s: %v\n%s", h.name, err, out)
		}
		checked++
	}
	if checked == 0 {
		t.Skip("there is neither nccl.h nor rccl/rccl.h, which no package of Debian 12 has (main, contrib, non-free): NVIDIA's libnccl-dev and ROCm's rccl-dev bring them, and RINGTEST_GPU_INCLUDE may say where they are")
	}
}
