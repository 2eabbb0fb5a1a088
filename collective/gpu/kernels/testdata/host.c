/* The kernels of kernels.hip as a host runs them: one thread after the other. */
#include <string.h>

#include "host.h"

#include "../kernels.hip"

/* Launches a kernel of a name with a grid of one dimension and its arguments, as a GPU's driver
   takes them: pointers to each. It returns 0, or -1 if there is no such kernel. */
#define CALL(op, type)                                                                            \
	if (!strcmp(name, "ringcli_" #op "_" #type)) {                                            \
		for (blockIdx.x = 0; blockIdx.x < grid; blockIdx.x++)                             \
			for (threadIdx.x = 0; threadIdx.x < block; threadIdx.x++)                 \
				ringcli_##op##_##type(*(type **)args[0], *(const type **)args[1], \
						      *(const type **)args[2], *(bits64 *)args[3], \
						      *(int64 *)args[4]);                         \
		return 0;                                                                         \
	}
#define CALLS(type)     \
	CALL(sum, type)  \
	CALL(prod, type) \
	CALL(min, type)  \
	CALL(max, type)  \
	CALL(avg, type)

int ringcli_launch(const char *name, unsigned grid, unsigned block, void **args)
{
	gridDim.x = grid;
	blockDim.x = block;
	CALLS(float32)
	CALLS(float64)
	CALLS(int32)
	CALLS(int64)
	return -1;
}
