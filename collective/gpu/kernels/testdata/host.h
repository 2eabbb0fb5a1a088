/* What a C compiler lacks of HIP, as far as kernels.hip needs it. Whoever launches a kernel
   sets these for each thread of it. */
#ifndef HOST_H
#define HOST_H
#define __global__
#define __device__
#define __launch_bounds__(threads)
struct index {
	unsigned x;
};
static __thread struct index blockIdx, threadIdx, blockDim, gridDim;
#endif
