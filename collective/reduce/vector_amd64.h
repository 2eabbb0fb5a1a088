// The frame that all AVX2 kernels share. A kernel is a step, a macro STEP(A, B)
// that leaves in Y0 the 32 bytes at A combined with the 32 bytes at B. It may
// use Y1 to Y11; constants are in Y12 to Y14 before the frame begins.

// Y15 keeps the last 32 bytes of the result from before the first store to
// after the last one, for they overlap what the loop writes where the length is
// no multiple of 32, and dst may be a or b. The arguments are (dst, a, b *byte,
// n int) with n >= 32; what lies before the last 32 bytes is done in runs of
// 128 bytes, then of 32.
#define KERNEL(STEP) \
	MOVQ dst+0(FP), DI; \
	MOVQ a+8(FP), SI; \
	MOVQ b+16(FP), DX; \
	MOVQ n+24(FP), CX; \
	STEP(-32(SI)(CX*1), -32(DX)(CX*1)); \
	VMOVDQU Y0, Y15; \
	LEAQ -32(DI)(CX*1), R8; \
	SUBQ $128, CX; \
	JLT  rest; \
runs: \
	STEP((SI), (DX)); \
	VMOVDQU Y0, (DI); \
	STEP(32(SI), 32(DX)); \
	VMOVDQU Y0, 32(DI); \
	STEP(64(SI), 64(DX)); \
	VMOVDQU Y0, 64(DI); \
	STEP(96(SI), 96(DX)); \
	VMOVDQU Y0, 96(DI); \
	ADDQ $128, DI; \
	ADDQ $128, SI; \
	ADDQ $128, DX; \
	SUBQ $128, CX; \
	JGE  runs; \
rest: \
	ADDQ $(128-32), CX; \
	JLE  last; \
	STEP((SI), (DX)); \
	VMOVDQU Y0, (DI); \
	ADDQ $32, DI; \
	ADDQ $32, SI; \
	ADDQ $32, DX; \
	SUBQ $128, CX; \
	JMP  rest; \
last: \
	VMOVDQU Y15, (R8); \
	VZEROUPPER; \
	RET

// Constants fill a register with copies of a word.
#define CONST32(BITS, X, Y) \
	MOVL BITS, AX; \
	VMOVD AX, X; \
	VPBROADCASTD X, Y

#define CONST64(BITS, X, Y) \
	MOVQ BITS, AX; \
	VMOVQ AX, X; \
	VPBROADCASTQ X, Y
