/* The kernels for gputest's libraries, which give each the addresses of what it works on. */
#include "gpu.h"

#include "host.c"

static void launch(const char *name, size_t bytes, const struct launch *l)
{
	uint64_t args[5];
	void *pointers[5];
	memcpy(args, l->args, sizeof args);
	for (int i = 0; i < 5; i++)
		pointers[i] = &args[i];
	for (int i = 0; i < 3; i++)
		if (args[3] && !(args[i] = (uint64_t)at(l, args[i], args[3] * bytes)))
			return;
	ringcli_launch(name, l->grid, l->block, pointers);
}

#define RUN(op, type)                                                   \
	static void run_##op##_##type(const struct launch *l)           \
	{                                                               \
		launch("ringcli_" #op "_" #type, sizeof(type), l);      \
	}
#define ROW(op, type) {"ringcli_" #op "_" #type, 5, run_##op##_##type},
#define ALL(of)                                                                                \
	of(sum, float32) of(prod, float32) of(min, float32) of(max, float32) of(avg, float32)  \
	of(sum, float64) of(prod, float64) of(min, float64) of(max, float64) of(avg, float64)  \
	of(sum, int32) of(prod, int32) of(min, int32) of(max, int32) of(avg, int32)            \
	of(sum, int64) of(prod, int64) of(min, int64) of(max, int64) of(avg, int64)
ALL(RUN)
const struct kernel more_kernels[] = {ALL(ROW){0}};
