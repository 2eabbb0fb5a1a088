//go:build !nodl

package ibv

// abiCompat is the offset of abi_compat in struct ibv_context, behind a
// pthread_mutex_t of 48 bytes.
const abiCompat = 328
