/* Reduction kernels for HIP. Package kernels says what they compute, and how they go through
   the vectors. This is C, too, for whoever defines what a C compiler lacks of HIP. */
#ifdef __cplusplus
#define KERNEL extern "C" __global__
#else
#define KERNEL __global__
#endif

typedef float float32;
typedef double float64;
typedef int int32;
typedef long long int64;
typedef unsigned int bits32;
typedef unsigned long long bits64;

enum { LINE = 16 };

/* A line of elements, which is read and written at once. */
#define LINES(type)                                                        \
	typedef struct {                                                   \
		type lane[LINE / sizeof(type)];                            \
	} __attribute__((aligned(16))) line_##type;                        \
	typedef union {                                                    \
		type value;                                                \
		BITS_##type bits;                                          \
	} both_##type;
#define BITS_float32 bits32
#define BITS_float64 bits64
#define BITS_int32 bits32
#define BITS_int64 bits64
LINES(float32)
LINES(float64)
LINES(int32)
LINES(int64)

/* The elements of three vectors: before is those in front of the first whole line, in elements,
   where all begin at the same place of one, and all of them where they do not. */
#define REDUCE(op, type, step)                                                                          \
	__device__ static inline type op##_##type##_step(type x, type y, int64 ranks)                   \
	{                                                                                               \
		(void)ranks;                                                                            \
		step                                                                                    \
	}                                                                                               \
	KERNEL void __launch_bounds__(256) ringcli_##op##_##type(type *dst, const type *a, const type *b, bits64 count, int64 ranks) \
	{                                                                                               \
		const bits64 lanes = LINE / sizeof(type);                                               \
		const bits64 thread = (bits64)blockIdx.x * blockDim.x + threadIdx.x;                    \
		const bits64 threads = (bits64)gridDim.x * blockDim.x;                                  \
		bits64 before = count, lines = 0, i, k;                                                 \
		if (((((bits64)dst ^ (bits64)a) | ((bits64)dst ^ (bits64)b)) & (LINE - 1)) == 0) {      \
			before = (-(bits64)dst & (LINE - 1)) / sizeof(type);                            \
			before = before < count ? before : count;                                       \
			lines = (count - before) / lanes;                                               \
		}                                                                                       \
		for (i = thread; i < lines; i += threads) {                                             \
			line_##type x = ((const line_##type *)(a + before))[i];                         \
			line_##type y = ((const line_##type *)(b + before))[i], z;                      \
			for (k = 0; k < lanes; k++)                                                     \
				z.lane[k] = op##_##type##_step(x.lane[k], y.lane[k], ranks);            \
			((line_##type *)(dst + before))[i] = z;                                         \
		}                                                                                       \
		for (i = thread; i < count - lines * lanes; i += threads) {                             \
			k = i < before ? i : i + lines * lanes;                                         \
			dst[k] = op##_##type##_step(a[k], b[k], ranks);                                 \
		}                                                                                       \
	}

/* The one NaN, of a result that is one. */
#define CANONICAL(type, nan, result)                    \
	both_##type z;                                  \
	z.value = (result);                             \
	if (x != x || y != y || z.value != z.value)     \
		z.bits = nan;                           \
	return z.value;

/* As signed integers, with the lower bits of what is negative turned round, floats are in
   order, and -0 before +0. */
#define KEY(type, whole, u) ((u) ^ (bits##whole)(((int##whole)(u) >> (whole - 1)) & (int##whole)(((bits##whole)1 << (whole - 1)) - 1)))
#define ORDERED(type, whole, nan, than)                                                                \
	both_##type p, q;                                                                              \
	p.value = x;                                                                                   \
	q.value = y;                                                                                   \
	if (!((int##whole)KEY(type, whole, p.bits) than (int##whole)KEY(type, whole, q.bits)))         \
		p = q;                                                                                 \
	CANONICAL(type, nan, p.value)

#define NAN32 0x7fc00000u
#define NAN64 0x7ff8000000000000ull

#define FLOATS(type, whole, nan)                                            \
	REDUCE(sum, type, CANONICAL(type, nan, x + y))                      \
	REDUCE(prod, type, CANONICAL(type, nan, x * y))                     \
	REDUCE(min, type, ORDERED(type, whole, nan, <))                     \
	REDUCE(max, type, ORDERED(type, whole, nan, >))                     \
	REDUCE(avg, type, CANONICAL(type, nan, (x + y) / (type)ranks))

/* Unsigned integers wrap; an average divides in 64 bits. */
#define INTEGERS(type)                                                                 \
	REDUCE(sum, type, return (type)((BITS_##type)x + (BITS_##type)y);)             \
	REDUCE(prod, type, return (type)((BITS_##type)x * (BITS_##type)y);)            \
	REDUCE(min, type, return x < y ? x : y;)                                       \
	REDUCE(max, type, return x > y ? x : y;)                                       \
	REDUCE(avg, type, return (type)((int64)(type)((BITS_##type)x + (BITS_##type)y) / ranks);)

FLOATS(float32, 32, NAN32)
FLOATS(float64, 64, NAN64)
INTEGERS(int32)
INTEGERS(int64)
