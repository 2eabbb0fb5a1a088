//go:build !race

#include "textflag.h"
#include "vector_amd64.h"

// Float16: the processor converts. The immediate 0 rounds to nearest even,
// whatever the control register says. A NaN keeps some payload and its sign: it
// is found as a magnitude above infinity and replaced.
//   Y12  0x7fff  the magnitude     Y13  infinity     Y14  the canonical NaN
#define COMBINE16(OP, A, B) \
	VMOVDQU A, Y0; \
	VMOVDQU B, Y1; \
	VEXTRACTI128 $1, Y0, X2; \
	VEXTRACTI128 $1, Y1, X3; \
	VCVTPH2PS X0, Y0; \
	VCVTPH2PS X1, Y1; \
	VCVTPH2PS X2, Y2; \
	VCVTPH2PS X3, Y3; \
	OP Y1, Y0, Y0; \
	OP Y3, Y2, Y2; \
	VCVTPS2PH $0, Y0, X0; \
	VCVTPS2PH $0, Y2, X2; \
	VINSERTI128 $1, X2, Y0, Y0; \
	VPAND Y12, Y0, Y1; \
	VPCMPGTW Y13, Y1, Y1; \
	VPBLENDVB Y1, Y14, Y0, Y0

#define SUM16(A, B)  COMBINE16(VADDPS, A, B)
#define PROD16(A, B) COMBINE16(VMULPS, A, B)

// Bfloat16 is the upper half of a float32, so that the odd elements of a vector
// are float32 where they are, once the even ones below are cleared, and the
// even ones after a shift. Y12 has 0xffff0000 in every double word.
//
// ROUND rounds R to nearest even in its upper half: it adds half of the last
// place, less one if that is even; the carry may go into the exponent and up to
// infinity. Y13 has 0x7fff in every double word. A NaN would be spoilt by it,
// and is made canonical afterwards: N is set where R was unordered with itself.
#define ROUND(R, N, T) \
	VCMPPS $3, R, R, N; \
	VPSLLD $15, R, T; \
	VPSRLD $31, T, T; \
	VPADDD Y13, R, R; \
	VPADDD T, R, R

#define COMBINEB16(OP, A, B) \
	VMOVDQU A, Y0; \
	VMOVDQU B, Y1; \
	VPSLLD $16, Y0, Y2; \
	VPSLLD $16, Y1, Y3; \
	VPAND Y12, Y0, Y0; \
	VPAND Y12, Y1, Y1; \
	OP Y1, Y0, Y0; \
	OP Y3, Y2, Y2; \
	ROUND(Y0, Y4, Y5); \
	ROUND(Y2, Y6, Y7); \
	VPSRLD $16, Y2, Y2; \
	VPBLENDW $0xaa, Y0, Y2, Y0; \
	VPBLENDW $0xaa, Y4, Y6, Y4; \
	VPBLENDVB Y4, Y14, Y0, Y0

#define SUMB16(A, B)  COMBINEB16(VADDPS, A, B)
#define PRODB16(A, B) COMBINEB16(VMULPS, A, B)

// Minimum and maximum compare the bits as integers, in both formats. A number
// with a sign is above all without as an unsigned integer, and the larger its
// magnitude the higher; as a signed integer it is below all without.
//   the lesser:  the unsigned maximum if one has a sign, else either minimum
//   the greater: the signed minimum if both have a sign, else the signed maximum
// That holds -0 less than +0. Y1 becomes the larger magnitude: above infinity
// (Y13) one of the two is NaN. Y12 has 0x7fff, Y14 the canonical NaN.
#define ORDER16(LOW, HIGH, SIGNS, A, B) \
	VMOVDQU A, Y0; \
	VMOVDQU B, Y1; \
	LOW Y1, Y0, Y2; \
	HIGH Y1, Y0, Y3; \
	SIGNS Y1, Y0, Y4; \
	VPSRAW $15, Y4, Y4; \
	VPBLENDVB Y4, Y3, Y2, Y2; \
	VPAND Y12, Y0, Y0; \
	VPAND Y12, Y1, Y1; \
	VPMAXSW Y1, Y0, Y1; \
	VPCMPGTW Y13, Y1, Y1; \
	VPBLENDVB Y1, Y14, Y2, Y0

#define MIN16(A, B) ORDER16(VPMINUW, VPMAXUW, VPOR, A, B)
#define MAX16(A, B) ORDER16(VPMAXSW, VPMINSW, VPAND, A, B)

// The constants of the formats, and those of bfloat16's arithmetic.
#define FLOAT16 \
	CONST32($0x7fff7fff, X12, Y12); \
	CONST32($0x7c007c00, X13, Y13); \
	CONST32($0x7e007e00, X14, Y14)

#define BFLOAT16 \
	CONST32($0x7fff7fff, X12, Y12); \
	CONST32($0x7f807f80, X13, Y13); \
	CONST32($0x7fc07fc0, X14, Y14)

#define ARITHMETIC \
	CONST32($0xffff0000, X12, Y12); \
	CONST32($0x00007fff, X13, Y13); \
	CONST32($0x7fc07fc0, X14, Y14)

TEXT ·sumHalfAVX2(SB), NOSPLIT, $0-32
	FLOAT16
	KERNEL(SUM16)

TEXT ·prodHalfAVX2(SB), NOSPLIT, $0-32
	FLOAT16
	KERNEL(PROD16)

TEXT ·minHalfAVX2(SB), NOSPLIT, $0-32
	FLOAT16
	KERNEL(MIN16)

TEXT ·maxHalfAVX2(SB), NOSPLIT, $0-32
	FLOAT16
	KERNEL(MAX16)

TEXT ·sumBrainAVX2(SB), NOSPLIT, $0-32
	ARITHMETIC
	KERNEL(SUMB16)

TEXT ·prodBrainAVX2(SB), NOSPLIT, $0-32
	ARITHMETIC
	KERNEL(PRODB16)

TEXT ·minBrainAVX2(SB), NOSPLIT, $0-32
	BFLOAT16
	KERNEL(MIN16)

TEXT ·maxBrainAVX2(SB), NOSPLIT, $0-32
	BFLOAT16
	KERNEL(MAX16)
