package gpu

func init() {
	for name, value := range map[string]uint64{
		"CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS": ipcPeerAccess, "CU_JIT_ERROR_LOG_BUFFER": errorLog, "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES": errorLogSize,
	} {
		abi[CUDA].constants[name] = value
	}
}
