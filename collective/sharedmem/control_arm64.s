//go:build !race

#include "textflag.h"

// func pause()
TEXT ·pause(SB), NOSPLIT, $0-0
	YIELD
	RET

// func Publish(word *uint64, value uint64)
TEXT ·Publish(SB), NOSPLIT, $0-16
	MOVD word+0(FP), R0
	MOVD value+8(FP), R1
	STLR R1, (R0)
	RET

// func claim(word *uint64)
TEXT ·claim(SB), NOSPLIT, $0-8
	MOVD word+0(FP), R0
	PRFM (R0), PSTL1KEEP
	RET
