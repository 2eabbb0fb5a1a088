#include "textflag.h"
#include "go_asm.h"

#define SYS_write 64
#define SYS_exit_group 94
#define SYS_getrlimit 163
#define RLIMIT_AS 9

// ringcli_start is where the process begins (the Makefile tells the linker, with -E), before
// Go's runtime. That ends with a dump where it gets no address space, often before anything of
// ours runs: too low a limit is told here, in words.
TEXT ringcli_start(SB),NOSPLIT|NOFRAME,$0
	SUB $16, RSP
	MOVD $RLIMIT_AS, R0
	MOVD RSP, R1
	MOVD $SYS_getrlimit, R8
	SVC
	MOVD 0(RSP), R2
	ADD $16, RSP
	CBNZ R0, enough
	MOVD $const_leastSpace, R3
	CMP R3, R2
	BHS enough
	MOVD $2, R0
	MOVD ·tooLittle(SB), R1
	MOVD ·tooLittle+8(SB), R2
	MOVD $SYS_write, R8
	SVC
	MOVD $3, R0
	MOVD $SYS_exit_group, R8
	SVC
enough:
	B _rt0_arm64_linux(SB)
