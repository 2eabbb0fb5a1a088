//go:build !race

#include "textflag.h"
#include "vector_amd64.h"

// A NaN result is made canonical by the comparison that only NaN fails: a value
// is unordered with itself (predicate 3). Y14 has the canonical NaN, and the
// blend takes it where the mask is set.
#define UNORDERED $3

#define SUM32(A, B) \
	VMOVUPS A, Y0; \
	VADDPS B, Y0, Y0; \
	VCMPPS UNORDERED, Y0, Y0, Y1; \
	VBLENDVPS Y1, Y14, Y0, Y0

#define PROD32(A, B) \
	VMOVUPS A, Y0; \
	VMULPS B, Y0, Y0; \
	VCMPPS UNORDERED, Y0, Y0, Y1; \
	VBLENDVPS Y1, Y14, Y0, Y0

// The instructions for minimum and maximum return their second source where the
// sources are equal, as the two zeros are, or where one is NaN. So it is done
// both ways round. The results differ in the zeros alone, in their signs, and
// -0 is those joined by OR, +0 by AND; and in NaN, which the comparison of the
// operands finds.
#define MIN32(A, B) \
	VMOVUPS A, Y0; \
	VMOVUPS B, Y1; \
	VMINPS Y0, Y1, Y2; \
	VMINPS Y1, Y0, Y3; \
	VORPS Y2, Y3, Y2; \
	VCMPPS UNORDERED, Y0, Y1, Y1; \
	VBLENDVPS Y1, Y14, Y2, Y0

#define MAX32(A, B) \
	VMOVUPS A, Y0; \
	VMOVUPS B, Y1; \
	VMAXPS Y0, Y1, Y2; \
	VMAXPS Y1, Y0, Y3; \
	VANDPS Y2, Y3, Y2; \
	VCMPPS UNORDERED, Y0, Y1, Y1; \
	VBLENDVPS Y1, Y14, Y2, Y0

// The same in double precision.
#define SUM64(A, B) \
	VMOVUPD A, Y0; \
	VADDPD B, Y0, Y0; \
	VCMPPD UNORDERED, Y0, Y0, Y1; \
	VBLENDVPD Y1, Y14, Y0, Y0

#define PROD64(A, B) \
	VMOVUPD A, Y0; \
	VMULPD B, Y0, Y0; \
	VCMPPD UNORDERED, Y0, Y0, Y1; \
	VBLENDVPD Y1, Y14, Y0, Y0

#define MIN64(A, B) \
	VMOVUPD A, Y0; \
	VMOVUPD B, Y1; \
	VMINPD Y0, Y1, Y2; \
	VMINPD Y1, Y0, Y3; \
	VORPD Y2, Y3, Y2; \
	VCMPPD UNORDERED, Y0, Y1, Y1; \
	VBLENDVPD Y1, Y14, Y2, Y0

#define MAX64(A, B) \
	VMOVUPD A, Y0; \
	VMOVUPD B, Y1; \
	VMAXPD Y0, Y1, Y2; \
	VMAXPD Y1, Y0, Y3; \
	VANDPD Y2, Y3, Y2; \
	VCMPPD UNORDERED, Y0, Y1, Y1; \
	VBLENDVPD Y1, Y14, Y2, Y0

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
