package gpu

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// calling is each function of calls.go as this package calls it, in C: p is a pointer, n an integer,
// h a handle of 64 bytes; what is left out has no such function.
var calling = [calls]struct{ cuda, hip string }{
	callInit: {"n", "n"}, callVersion: {"p", "p"}, callErrorName: {"n, p", "n"}, callErrorString: {"n, p", "n"},
	callCount: {"p", "p"}, callDevice: {"p, n", "p, n"}, callName: {"p, n, n", "p, n, n"}, callTotal: {"p, n", "p, n"},
	callAttribute: {"p, n, n", ""}, callUUID: {"p, n", "p, n"}, callPCI: {"p, n, n", "p, n, n"}, callRetain: {"p, n", ""},
	callCurrent: {"p", "n"}, callCanAccess: {"p, n, n", "p, n, n"}, callEnablePeer: {"p, n", "n, n"},
	callPeerAttribute: {"p, n, n, n", "p, n, n, n"}, callLinkType: {"", "n, n, p, p"},
	callAlloc: {"p, n", "p, n"}, callFree: {"n", "p"}, callHostAlloc: {"p, n, n", "p, n, n"}, callHostFree: {"p", "p"},
	callHostRegister: {"p, n, n", "p, n, n"}, callHostUnregister: {"p", "p"},
	callWriteValue: {"p, n, n, n", "p, p, n, n"}, callWaitValue: {"p, n, n, n", "p, p, n, n, n"},
	callRange: {"p, p, n", "p, p, p"}, callHandleForRange: {"p, n, n, n, n", ""}, // later than the header of Debian 12
	callPointer: {"p, n, n", "p, n, p"}, callFlush: {"n, n", ""},
	callIPCHandle: {"p, n", "p, p"}, callIPCOpen: {"p, h, n", "p, h, n"}, callIPCClose: {"n", "p"},
	callStream: {"p, n", "p, n"}, callStreamQuery: {"p", "p"}, callStreamDestroy: {"p", "p"}, callStreamWaitEvent: {"p, p, n", "p, p, n"},
	callToDevice: {"n, p, n, p", "p, p, n, p"}, callFromDevice: {"p, n, n, p", "p, p, n, p"}, callOnDevice: {"n, n, n, p", "p, p, n, p"},
	callFill: {"n, n, n, p", "p, n, n, p"}, callEvent: {"p, n", "p, n"}, callEventRecord: {"p, p", "p, p"},
	callEventElapsed: {"p, p, p", "p, p, p"}, callEventDestroy: {"p", "p"},
	callModule: {"p, p, n, p, p", "p, p, n, p, p"}, callFunction: {"p, p, p", "p, p, p"}, callUnload: {"p", "p"},
	callLaunch: {"p, n, n, n, n, n, n, n, p, p, p", "p, n, n, n, n, n, n, n, p, p, p"},
}

// abi is what the headers of a runtime must have, beside the functions.
var abi = map[Kind]struct {
	header, flags, handle string
	constants             map[string]uint64
}{
	CUDA: {"cuda.h", "", "CUipcMemHandle", map[string]uint64{
		"sizeof(CUipcMemHandle)": 64, "sizeof(CUdeviceptr)": 8, "sizeof(CUuuid)": 16, "sizeof(CUdevice)": 4, "sizeof(CUjit_option)": 4,
		"CUDA_ERROR_INVALID_VALUE": codeInvalid, "CUDA_ERROR_OUT_OF_MEMORY": codeNoMemory, "CUDA_ERROR_NO_DEVICE": codeNoDevice,
		"CUDA_ERROR_NOT_READY": codeNotReady, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED": codeAlreadyEnabled,
		"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": attributeMajor, "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR": attributeMinor,
		"CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED":    peerAtomics,
		"CU_MEMHOSTALLOC_PORTABLE|CU_MEMHOSTALLOC_DEVICEMAP": pinnedFlags,
		"CU_STREAM_NON_BLOCKING":                             nonBlocking,
		"CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX": flushCurrent, "CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER": flushToOwner,
		"CU_POINTER_ATTRIBUTE_MEMORY_TYPE": pointerType, "CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL": pointerDevice, "CU_MEMORYTYPE_HOST": 1,
		"CUDA_ERROR_NOT_SUPPORTED": codeNotSupported, "CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD": dmaBufFD,
	}},
	HIP: {"hip/hip_runtime_api.h", "-D__HIP_PLATFORM_AMD__", "hipIpcMemHandle_t", map[string]uint64{
		"sizeof(hipIpcMemHandle_t)": 64, "sizeof(hipDeviceptr_t)": 8, "sizeof(hipUUID)": 16, "sizeof(hipDevice_t)": 4,
		"hipErrorInvalidValue": codeInvalid, "hipErrorOutOfMemory": codeNoMemory, "hipErrorNoDevice": codeNoDevice,
		"hipErrorNotReady": codeNotReady, "hipErrorPeerAccessAlreadyEnabled": codeAlreadyEnabled,
		"HIP_POINTER_ATTRIBUTE_MEMORY_TYPE": pointerType, "HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL": pointerDevice,
		"hipHostMallocPortable|hipHostMallocMapped": pinnedFlags, "hipStreamNonBlocking": nonBlocking,
	}},
}

// TestABIIsTheHeaders compiles every call as it is made, and every number, against the vendors' own
// headers: as many arguments, integers and pointers where they are expected, a handle by value.
func TestABIIsTheHeaders(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip(err)
	}
	for _, kind := range Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			of := abi[kind]
			folder := include(of.header)
			if folder == "" {
				t.Skipf("no %s (Debian: libamdhip64-dev; nvidia-cuda-dev of non-free): RINGTEST_GPU_INCLUDE may say where it is", of.header)
			}
			var b strings.Builder
			fmt.Fprintf(&b, "#include <stddef.h>\n#include <stdint.h>\n#include <stdbool.h>\n#include <%s>\n", of.header)
			fmt.Fprintf(&b, "void all(void *p, size_t n, %s h) {\n", of.handle)
			functions := 0
			for c := range calls {
				args := calling[c].cuda
				if kind == HIP {
					args = calling[c].hip
				}
				if args != "" {
					functions++
					fmt.Fprintf(&b, "\t%s(%s);\n", kind.name(c), args)
				}
			}
			b.WriteString("}\n")
			for name, value := range of.constants {
				fmt.Fprintf(&b, "_Static_assert((%s) == %d, \"%s is not %d\");\n", name, value, name, value)
			}
			source := filepath.Join(t.TempDir(), "abi.c")
			if err := os.WriteFile(source, []byte(b.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"-fsyntax-only", "-Werror=int-conversion", "-Werror=implicit-function-declaration", "-Wno-enum-conversion", "-I" + folder, source}
			if of.flags != "" {
				args = append([]string{of.flags}, args...)
			}
			if out, err := exec.CommandContext(t.Context(), cc, args...).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("%s: %d functions, %d numbers", filepath.Join(folder, of.header), functions, len(of.constants))
		})
	}
}

// include is the folder that has a header, or "".
func include(header string) string {
	for _, folder := range append(filepath.SplitList(os.Getenv("RINGTEST_GPU_INCLUDE")), "/usr/include", "/usr/local/cuda/include", "/opt/rocm/include") {
		if _, err := os.Stat(filepath.Join(folder, header)); err == nil {
			return folder
		}
	}
	return ""
}
