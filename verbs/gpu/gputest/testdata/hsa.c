// The one function of ROCr (hsa_ext_amd.h) that is called, on the memory of gpu.c's HIP, which is loaded
// before and for all to find.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>

struct handle {
	uint64_t magic, pid, fd, n, device, rest[3];
};
int hipIpcGetMemHandle(struct handle *h, uint64_t address);
int hipMemGetAddressRange(uint64_t *start, size_t *n, uint64_t address);

__attribute__((visibility("default"))) int hsa_amd_portable_export_dmabuf(const void *address, size_t n, int *fd, uint64_t *offset)
{
	struct handle h;
	uint64_t start, at = (uint64_t)address;
	size_t whole;
	if (hipMemGetAddressRange(&start, &whole, at) || at + n > start + whole || hipIpcGetMemHandle(&h, at))
		return 0x1001; // HSA_STATUS_ERROR_INVALID_ARGUMENT
	*fd = fcntl(h.fd, F_DUPFD_CLOEXEC, 0);
	*offset = at - start;
	return *fd < 0 ? 0x1000 : 0;
}
