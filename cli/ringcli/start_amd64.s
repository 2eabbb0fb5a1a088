#include "textflag.h"
#include "go_asm.h"

#define SYS_write 1
#define SYS_getrlimit 97
#define SYS_exit_group 231
#define RLIMIT_AS 9

// ringcli_start is where the process begins (the Makefile tells the linker, with -E), before
// Go's runtime. That ends with a dump where it gets no address space, often before anything of
// ours runs: too low a limit is told here, in words.
TEXT ringcli_start(SB),NOSPLIT|NOFRAME,$0
	SUBQ $16, SP
	MOVQ $SYS_getrlimit, AX
	MOVQ $RLIMIT_AS, DI
	MOVQ SP, SI
	SYSCALL
	MOVQ 0(SP), CX
	ADDQ $16, SP
	TESTQ AX, AX
	JNE enough
	MOVQ $const_leastSpace, AX
	CMPQ CX, AX
	JCC enough
	MOVQ $SYS_write, AX
	MOVQ $2, DI
	MOVQ ·tooLittle(SB), SI
	MOVQ ·tooLittle+8(SB), DX
	SYSCALL
	MOVQ $SYS_exit_group, AX
	MOVQ $3, DI
	SYSCALL
enough:
	JMP _rt0_amd64_linux(SB)
