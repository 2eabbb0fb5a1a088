// What the kernels of kernels.c work with.
#pragma once
#include <stddef.h>
#include <stdint.h>

// A launch: args are the kernel's arguments, 8 bytes each.
struct launch {
	int device;
	unsigned grid, block;
	uint64_t args[64];
};

// at is where n bytes of an address of a device's lie in this process, as work on a device sees them:
// its own, a peer's to which it has enabled access, another process's that were opened, or pinned
// memory of the host. What it may not touch is NULL, and ends the stream with an illegal address.
void *at(const struct launch *l, uint64_t address, size_t n);

// A kernel by its name, and how many arguments it takes. The last has no name.
struct kernel {
	const char *name;
	int arguments;
	void (*run)(const struct launch *);
};
extern const struct kernel kernels[];

// Those of the sources that a test gives to Build, if any.
extern const struct kernel more_kernels[] __attribute__((weak));
