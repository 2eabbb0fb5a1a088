/* What hiprtc defines before a source, as far as kernels.hip needs it: for clang alone. */
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __launch_bounds__(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))
struct index {
	unsigned x;
};
#define blockIdx (index{__builtin_amdgcn_workgroup_id_x()})
#define threadIdx (index{__builtin_amdgcn_workitem_id_x()})
#define blockDim (index{__builtin_amdgcn_workgroup_size_x()})
#define gridDim (index{__builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x()})
