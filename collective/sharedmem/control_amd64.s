//go:build !race

#include "textflag.h"

// func pause()
TEXT ·pause(SB), NOSPLIT, $0-0
	PAUSE
	RET

// func Publish(word *uint64, value uint64)
// Stores become visible in their order.
TEXT ·Publish(SB), NOSPLIT, $0-16
	MOVQ word+0(FP), AX
	MOVQ value+8(FP), BX
	MOVQ BX, (AX)
	RET

// func claim(word *uint64)
TEXT ·claim(SB), NOSPLIT, $0-8
	MOVQ word+0(FP), AX
	BYTE $0x0F; BYTE $0x0D; BYTE $0x08 // PREFETCHW (AX), which the assembler does not know
	RET
