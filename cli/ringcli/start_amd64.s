#include "textflag.h"
#include "go_asm.h"

#define SYS_write 1
#define SYS_getrlimit 97
#define SYS_getuid 102
#define SYS_sched_getaffinity 204
#define SYS_exit_group 231
#define RLIMIT_DATA 2
#define RLIMIT_STACK 3
#define RLIMIT_NPROC 6
#define RLIMIT_AS 9

#define ROOM const_maskWords*8

// LIMIT leaves a limit in CX; RLIM_INFINITY, all bits, if the kernel does not tell it.
#define LIMIT(resource) \
	MOVQ $-1, 0(SP) \
	MOVQ $SYS_getrlimit, AX \
	MOVQ $resource, DI \
	MOVQ SP, SI \
	SYSCALL \
	MOVQ 0(SP), CX

// ringcli_start is where the process begins (the Makefile tells the linker, with -E), before
// Go's runtime. The runtime ends with a dump where it gets no memory and no thread, often before
// anything of ours runs: too low a limit is told here, in words.
TEXT ringcli_start(SB),NOSPLIT|NOFRAME,$0
	MOVQ DX, R10 // the dynamic linker's, which the program gets as it was
	SUBQ $ROOM, SP
	LIMIT(RLIMIT_STACK)
	CMPQ CX, $-1
	JNE limited
	MOVQ $const_usualStack, CX
limited:
	MOVQ CX, R8
	CMPQ CX, $const_leastStack
	JCS stack
	MOVQ $SYS_sched_getaffinity, AX
	MOVQ $0, DI
	MOVQ $ROOM, SI
	MOVQ SP, DX
	SYSCALL
	MOVQ $const_leastThreads, R9
word:
	SUBQ $8, AX // bytes of the mask that were written, or an error below 0
	JLT counted
	MOVQ (SP)(AX*1), CX
bit:
	TESTQ CX, CX
	JEQ word
	LEAQ -1(CX), DX
	ANDQ DX, CX
	INCQ R9
	JMP bit
counted:
	LIMIT(RLIMIT_AS)
	MOVQ CX, AX
	SUBQ $const_leastSpace, AX
	JCS space
	MOVQ $0, DX
	DIVQ R9
	CMPQ AX, R8
	JCS space
	LIMIT(RLIMIT_DATA)
	MOVQ CX, AX
	SUBQ $const_leastData, AX
	JCS data
	MOVQ $0, DX
	DIVQ R9
	CMPQ AX, R8
	JCS data
	LIMIT(RLIMIT_NPROC)
	CMPQ CX, $const_leastThreads
	JCC enough
	MOVQ $SYS_getuid, AX
	SYSCALL
	TESTL AX, AX
	JNE threads // the kernel sets root no limit
enough:
	MOVQ R10, DX
	ADDQ $ROOM, SP
	JMP _rt0_amd64_linux(SB)
stack:
	MOVQ ·littleStack(SB), SI
	MOVQ ·littleStack+8(SB), DX
	JMP refuse
space:
	MOVQ ·littleSpace(SB), SI
	MOVQ ·littleSpace+8(SB), DX
	JMP refuse
data:
	MOVQ ·littleData(SB), SI
	MOVQ ·littleData+8(SB), DX
	JMP refuse
threads:
	MOVQ ·fewThreads(SB), SI
	MOVQ ·fewThreads+8(SB), DX
refuse:
	MOVQ $SYS_write, AX
	MOVQ $2, DI
	SYSCALL
	MOVQ $SYS_exit_group, AX
	MOVQ $3, DI
	SYSCALL
