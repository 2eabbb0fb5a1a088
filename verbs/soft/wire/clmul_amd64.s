#include "textflag.h"

// FOLD takes what Z has past what comes between, and adds what is there.
#define FOLD(Z, constants, there, T) \
	VPCLMULQDQ $0x00, constants, Z, T \
	VPCLMULQDQ $0x11, constants, Z, Z \
	VPTERNLOGQ $0x96, there, T, Z

// func foldBlocks(register uint32, p *byte, n int, k *foldConstants, rest *[16]byte)
TEXT ·foldBlocks(SB), NOSPLIT, $0-40
	MOVL register+0(FP), AX
	MOVQ p+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ k+24(FP), DX
	MOVQ rest+32(FP), DI

	VMOVDQU64      (SI), Z0
	VMOVDQU64      64(SI), Z1
	VMOVDQU64      128(SI), Z2
	VMOVDQU64      192(SI), Z3
	VMOVD          AX, X4
	VPXORQ         Z4, Z0, Z0
	VBROADCASTI32X4 (DX), Z8   // past 4 registers
	VBROADCASTI32X4 16(DX), Z9 // past 1
	ADDQ           $256, SI
	SUBQ           $512, CX
	JLT            together

four:
	FOLD(Z0, Z8, (SI), Z4)
	FOLD(Z1, Z8, 64(SI), Z5)
	FOLD(Z2, Z8, 128(SI), Z6)
	FOLD(Z3, Z8, 192(SI), Z7)
	ADDQ $256, SI
	SUBQ $256, CX
	JGE  four

together:
	FOLD(Z0, Z9, Z1, Z4)
	FOLD(Z0, Z9, Z2, Z4)
	FOLD(Z0, Z9, Z3, Z4)
	ADDQ $192, CX
	JLT  lanes

one:
	FOLD(Z0, Z9, (SI), Z4)
	ADDQ $64, SI
	SUBQ $64, CX
	JGE  one

lanes:
	// The first three quarters of the register go past what follows them in it.
	VMOVDQU64     32(DX), Z8
	VPCLMULQDQ    $0x00, Z8, Z0, Z1
	VPCLMULQDQ    $0x11, Z8, Z0, Z2
	VPXORQ        Z1, Z2, Z1
	VEXTRACTI32X4 $3, Z0, X3
	VEXTRACTI64X4 $1, Z1, Y2
	VPXORQ        Y1, Y2, Y1
	VEXTRACTI128  $1, Y1, X2
	VPXOR         X1, X2, X1
	VPXOR         X1, X3, X1
	VMOVDQU       X1, (DI)
	VZEROUPPER
	RET
