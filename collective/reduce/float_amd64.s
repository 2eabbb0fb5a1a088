//go:build !race

#include "textflag.h"
#include "vector_amd64.h"

// A NaN result is made canonical by the comparison that only NaN fails: a value
// is unordered with itself (predicate 3). Y14 has the canonical NaN, and the
// blend takes it where the mask is set.
#define UNORDERED $3

#define STEP(MOV, OP, CMP, BLEND, A, B) \
	MOV A, Y0; \
	OP B, Y0, Y0; \
	CMP UNORDERED, Y0, Y0, Y1; \
	BLEND Y1, Y14, Y0, Y0

#define SUM32(A, B)  STEP(VMOVUPS, VADDPS, VCMPPS, VBLENDVPS, A, B)
#define PROD32(A, B) STEP(VMOVUPS, VMULPS, VCMPPS, VBLENDVPS, A, B)
#define SUM64(A, B)  STEP(VMOVUPD, VADDPD, VCMPPD, VBLENDVPD, A, B)
#define PROD64(A, B) STEP(VMOVUPD, VMULPD, VCMPPD, VBLENDVPD, A, B)

// The instructions for minimum and maximum return their second source where the
// sources are equal, as the two zeros are, or where one is NaN. So it is done
// both ways round. The results differ in the zeros alone, in their signs, and
// -0 is those joined by OR, +0 by AND; and in NaN, which the comparison of the
// operands finds.
#define ORDER(MOV, OP, JOIN, CMP, BLEND, A, B) \
	MOV A, Y0; \
	MOV B, Y1; \
	OP Y0, Y1, Y2; \
	OP Y1, Y0, Y3; \
	JOIN Y2, Y3, Y2; \
	CMP UNORDERED, Y0, Y1, Y1; \
	BLEND Y1, Y14, Y2, Y0

#define MIN32(A, B) ORDER(VMOVUPS, VMINPS, VORPS, VCMPPS, VBLENDVPS, A, B)
#define MAX32(A, B) ORDER(VMOVUPS, VMAXPS, VANDPS, VCMPPS, VBLENDVPS, A, B)
#define MIN64(A, B) ORDER(VMOVUPD, VMINPD, VORPD, VCMPPD, VBLENDVPD, A, B)
#define MAX64(A, B) ORDER(VMOVUPD, VMAXPD, VANDPD, VCMPPD, VBLENDVPD, A, B)

TEXT ·sumFloat32AVX2(SB), NOSPLIT, $0-32
	CONST32($0x7fc00000, X14, Y14)
	KERNEL(SUM32)

TEXT ·prodFloat32AVX2(SB), NOSPLIT, $0-32
	CONST32($0x7fc00000, X14, Y14)
	KERNEL(PROD32)

TEXT ·minFloat32AVX2(SB), NOSPLIT, $0-32
	CONST32($0x7fc00000, X14, Y14)
	KERNEL(MIN32)

TEXT ·maxFloat32AVX2(SB), NOSPLIT, $0-32
	CONST32($0x7fc00000, X14, Y14)
	KERNEL(MAX32)

TEXT ·sumFloat64AVX2(SB), NOSPLIT, $0-32
	CONST64($0x7ff8000000000000, X14, Y14)
	KERNEL(SUM64)

TEXT ·prodFloat64AVX2(SB), NOSPLIT, $0-32
	CONST64($0x7ff8000000000000, X14, Y14)
	KERNEL(PROD64)

TEXT ·minFloat64AVX2(SB), NOSPLIT, $0-32
	CONST64($0x7ff8000000000000, X14, Y14)
	KERNEL(MIN64)

TEXT ·maxFloat64AVX2(SB), NOSPLIT, $0-32
	CONST64($0x7ff8000000000000, X14, Y14)
	KERNEL(MAX64)
