package gpu

// call is a function that a runtime has.
type call int

const (
	callInit call = iota
	callVersion
	callErrorName
	callErrorString
	callCount
	callDevice
	callName
	callTotal
	callAttribute
	callUUID
	callPCI
	callRetain
	callCurrent
	callCanAccess
	callEnablePeer
	callPeerAttribute
	callLinkType
	callAlloc
	callFree
	callHostAlloc
	callHostFree
	callHostRegister
	callHostUnregister
	callRange
	callPointer
	callHandleForRange
	callFlush
	callIPCHandle
	callIPCOpen
	callIPCClose
	callStream
	callStreamQuery
	callStreamDestroy
	callStreamWaitEvent
	callToDevice
	callFromDevice
	callOnDevice
	callFill
	callWriteValue
	callWaitValue
	callEvent
	callEventRecord
	callEventElapsed
	callEventDestroy
	callModule
	callFunction
	callLaunch
	callUnload
	calls
)

// names are the functions' names: what takes and returns the same has one row. "" is what a
// runtime has not, or has by a version later than the oldest that will do.
var names = [calls]struct {
	cuda, hip string
	optional  bool
}{
	callInit:        {"cuInit", "hipInit", false},
	callVersion:     {"cuDriverGetVersion", "hipRuntimeGetVersion", false},
	callErrorName:   {"cuGetErrorName", "hipGetErrorName", false},     // unlike: name
	callErrorString: {"cuGetErrorString", "hipGetErrorString", false}, // unlike: name
	callCount:       {"cuDeviceGetCount", "hipGetDeviceCount", false},
	callDevice:      {"cuDeviceGet", "hipDeviceGet", false},
	callName:        {"cuDeviceGetName", "hipDeviceGetName", false},
	callTotal:       {"cuDeviceTotalMem_v2", "hipDeviceTotalMem", false},
	callAttribute:   {"cuDeviceGetAttribute", "", true},
	callUUID:        {"cuDeviceGetUuid", "hipDeviceGetUuid", true},
	callPCI:         {"cuDeviceGetPCIBusId", "hipDeviceGetPCIBusId", false},
	callRetain:      {"cuDevicePrimaryCtxRetain", "", true},
	callCurrent:     {"cuCtxSetCurrent", "hipSetDevice", false}, // unlike: a context, a device

	callCanAccess:     {"cuDeviceCanAccessPeer", "hipDeviceCanAccessPeer", false},
	callEnablePeer:    {"cuCtxEnablePeerAccess", "hipDeviceEnablePeerAccess", false}, // unlike: a context, a device
	callPeerAttribute: {"cuDeviceGetP2PAttribute", "hipDeviceGetP2PAttribute", true},
	callLinkType:      {"", "hipExtGetLinkTypeAndHopCount", true},

	callAlloc:          {"cuMemAlloc_v2", "hipMalloc", false},
	callFree:           {"cuMemFree_v2", "hipFree", false},
	callHostAlloc:      {"cuMemHostAlloc", "hipHostMalloc", false},
	callHostFree:       {"cuMemFreeHost", "hipHostFree", false},
	callHostRegister:   {"cuMemHostRegister_v2", "hipHostRegister", false},
	callHostUnregister: {"cuMemHostUnregister", "hipHostUnregister", false},
	callRange:          {"cuMemGetAddressRange_v2", "hipMemGetAddressRange", false},
	callPointer:        {"cuPointerGetAttribute", "hipPointerGetAttribute", true},                 // ROCm 5
	callHandleForRange: {"cuMemGetHandleForAddressRange", "hipMemGetHandleForAddressRange", true}, // CUDA 11.7, ROCm 7
	callFlush:          {"cuFlushGPUDirectRDMAWrites", "", true},                                  // CUDA 11.3
	callIPCHandle:      {"cuIpcGetMemHandle", "hipIpcGetMemHandle", false},
	callIPCOpen:        {"cuIpcOpenMemHandle_v2", "hipIpcOpenMemHandle", false},
	callIPCClose:       {"cuIpcCloseMemHandle", "hipIpcCloseMemHandle", false},

	callStream:          {"cuStreamCreate", "hipStreamCreateWithFlags", false},
	callStreamQuery:     {"cuStreamQuery", "hipStreamQuery", false},
	callStreamDestroy:   {"cuStreamDestroy_v2", "hipStreamDestroy", false},
	callStreamWaitEvent: {"cuStreamWaitEvent", "hipStreamWaitEvent", false},
	callToDevice:        {"cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync", false},
	callFromDevice:      {"cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync", false},
	callOnDevice:        {"cuMemcpyDtoDAsync_v2", "hipMemcpyDtoDAsync", false},
	callFill:            {"cuMemsetD8Async", "hipMemsetD8Async", false},
	callWriteValue:      {"cuStreamWriteValue32_v2", "hipStreamWriteValue32", true}, // CUDA 11.7
	callWaitValue:       {"cuStreamWaitValue32_v2", "hipStreamWaitValue32", true},
	callEvent:           {"cuEventCreate", "hipEventCreateWithFlags", false},
	callEventRecord:     {"cuEventRecord", "hipEventRecord", false},
	callEventElapsed:    {"cuEventElapsedTime", "hipEventElapsedTime", false}, // unlike in nothing: (ms, start, end)
	callEventDestroy:    {"cuEventDestroy_v2", "hipEventDestroy", false},

	callModule:   {"cuModuleLoadDataEx", "hipModuleLoadDataEx", false},
	callFunction: {"cuModuleGetFunction", "hipModuleGetFunction", false},
	callLaunch:   {"cuLaunchKernel", "hipModuleLaunchKernel", false},
	callUnload:   {"cuModuleUnload", "hipModuleUnload", false},
}

// name is the runtime's own name for a call.
func (k Kind) name(c call) string {
	if k == HIP {
		return names[c].hip
	}
	return names[c].cuda
}
