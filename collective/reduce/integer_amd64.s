//go:build !race

#include "textflag.h"
#include "vector_amd64.h"

// Where there is an instruction for it, a step is that instruction.
#define ONE(OP, A, B) \
	VMOVDQU A, Y0; \
	OP B, Y0, Y0

#define SUM8(A, B)   ONE(VPADDB, A, B)
#define SUM32(A, B)  ONE(VPADDD, A, B)
#define SUM64(A, B)  ONE(VPADDQ, A, B)
#define PROD32(A, B) ONE(VPMULLD, A, B)
#define MINI8(A, B)  ONE(VPMINSB, A, B)
#define MAXI8(A, B)  ONE(VPMAXSB, A, B)
#define MINU8(A, B)  ONE(VPMINUB, A, B)
#define MAXU8(A, B)  ONE(VPMAXUB, A, B)
#define MINI32(A, B) ONE(VPMINSD, A, B)
#define MAXI32(A, B) ONE(VPMAXSD, A, B)
#define MINU32(A, B) ONE(VPMINUD, A, B)
#define MAXU32(A, B) ONE(VPMAXUD, A, B)

// Bytes are multiplied as 16-bit words, of which the low half counts: once as
// they are, for the even bytes, and once for the odd ones, a's moved down and
// b's left in place with zeros below, so that the product is in place too.
// Y14 has 0x00ff in every word.
#define PROD8(A, B) \
	VMOVDQU A, Y0; \
	VMOVDQU B, Y1; \
	VPMULLW Y1, Y0, Y2; \
	VPAND   Y14, Y2, Y2; \
	VPSRLW  $8, Y0, Y0; \
	VPANDN  Y1, Y14, Y1; \
	VPMULLW Y1, Y0, Y0; \
	VPOR    Y2, Y0, Y0

// Modulo 2^64 a product is lo*lo plus the two cross products of the halves, 32
// bits up; of these the low 32 bits count.
#define PROD64(A, B) \
	VMOVDQU  A, Y0; \
	VMOVDQU  B, Y1; \
	VPSHUFD  $0xb1, Y1, Y2; \
	VPMULLD  Y2, Y0, Y2; \
	VPSLLQ   $32, Y2, Y3; \
	VPADDD   Y3, Y2, Y2; \
	VPAND    Y14, Y2, Y2; \
	VPMULUDQ Y1, Y0, Y0; \
	VPADDQ   Y2, Y0, Y0

// AVX2 compares words of 64 bits, but has no minimum of them. VBLENDVPD takes
// its first source where the mask is set, its second elsewhere.
#define SIGNED64(GREATER, ELSE, A, B) \
	VMOVDQU A, Y0; \
	VMOVDQU B, Y1; \
	VPCMPGTQ Y1, Y0, Y2; \
	VBLENDVPD Y2, GREATER, ELSE, Y0

#define MINI64(A, B) SIGNED64(Y1, Y0, A, B)
#define MAXI64(A, B) SIGNED64(Y0, Y1, A, B)

// It compares as signed: with the top bits flipped (Y14) that is the order of
// unsigned words.
#define UNSIGNED64(GREATER, ELSE, A, B) \
	VMOVDQU A, Y0; \
	VMOVDQU B, Y1; \
	VPXOR Y14, Y0, Y2; \
	VPXOR Y14, Y1, Y3; \
	VPCMPGTQ Y3, Y2, Y2; \
	VBLENDVPD Y2, GREATER, ELSE, Y0

#define MINU64(A, B) UNSIGNED64(Y1, Y0, A, B)
#define MAXU64(A, B) UNSIGNED64(Y0, Y1, A, B)

TEXT ·sum8AVX2(SB), NOSPLIT, $0-32
	KERNEL(SUM8)

TEXT ·prod8AVX2(SB), NOSPLIT, $0-32
	CONST32($0x00ff00ff, X14, Y14)
	KERNEL(PROD8)

TEXT ·minI8AVX2(SB), NOSPLIT, $0-32
	KERNEL(MINI8)

TEXT ·minU8AVX2(SB), NOSPLIT, $0-32
	KERNEL(MINU8)

TEXT ·maxI8AVX2(SB), NOSPLIT, $0-32
	KERNEL(MAXI8)

TEXT ·maxU8AVX2(SB), NOSPLIT, $0-32
	KERNEL(MAXU8)

TEXT ·sumWord32AVX2(SB), NOSPLIT, $0-32
	KERNEL(SUM32)

TEXT ·prodWord32AVX2(SB), NOSPLIT, $0-32
	KERNEL(PROD32)

TEXT ·minI32AVX2(SB), NOSPLIT, $0-32
	KERNEL(MINI32)

TEXT ·minU32AVX2(SB), NOSPLIT, $0-32
	KERNEL(MINU32)

TEXT ·maxI32AVX2(SB), NOSPLIT, $0-32
	KERNEL(MAXI32)

TEXT ·maxU32AVX2(SB), NOSPLIT, $0-32
	KERNEL(MAXU32)

TEXT ·sumWord64AVX2(SB), NOSPLIT, $0-32
	KERNEL(SUM64)

TEXT ·prodWord64AVX2(SB), NOSPLIT, $0-32
	CONST64($0xffffffff00000000, X14, Y14)
	KERNEL(PROD64)

TEXT ·minI64AVX2(SB), NOSPLIT, $0-32
	KERNEL(MINI64)

TEXT ·minU64AVX2(SB), NOSPLIT, $0-32
	CONST64($0x8000000000000000, X14, Y14)
	KERNEL(MINU64)

TEXT ·maxI64AVX2(SB), NOSPLIT, $0-32
	KERNEL(MAXI64)

TEXT ·maxU64AVX2(SB), NOSPLIT, $0-32
	CONST64($0x8000000000000000, X14, Y14)
	KERNEL(MAXU64)
