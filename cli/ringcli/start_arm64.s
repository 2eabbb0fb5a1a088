#include "textflag.h"
#include "go_asm.h"

#define SYS_write 64
#define SYS_exit_group 94
#define SYS_sched_getaffinity 123
#define SYS_getrlimit 163
#define SYS_getuid 174
#define RLIMIT_DATA 2
#define RLIMIT_STACK 3
#define RLIMIT_NPROC 6
#define RLIMIT_AS 9

#define ROOM const_maskWords*8

// LIMIT leaves a limit in R2; RLIM_INFINITY, all bits, if the kernel does not tell it.
#define LIMIT(resource) \
	MOVD $-1, R2 \
	MOVD R2, 0(RSP) \
	MOVD $resource, R0 \
	MOVD RSP, R1 \
	MOVD $SYS_getrlimit, R8 \
	SVC \
	MOVD 0(RSP), R2

// ringcli_start is where the process begins (the Makefile tells the linker, with -E), before
// Go's runtime. The runtime ends with a dump where it gets no memory and no thread, often before
// anything of ours runs: too low a limit is told here, in words.
TEXT ringcli_start(SB),NOSPLIT|NOFRAME,$0
	MOVD R0, R11 // the dynamic linker's, which the program gets as it was
	SUB $ROOM, RSP
	LIMIT(RLIMIT_STACK)
	CMN $1, R2
	BNE limited
	MOVD $const_usualStack, R2
limited:
	MOVD R2, R9
	MOVD $const_leastStack, R3
	CMP R3, R2
	BLO stack
	MOVD $0, R0
	MOVD $ROOM, R1
	MOVD RSP, R2
	MOVD $SYS_sched_getaffinity, R8
	SVC
	MOVD $const_leastThreads, R10
	MOVD RSP, R4
word:
	SUBS $8, R0 // bytes of the mask that were written, or an error below 0
	BLT counted
	MOVD (R4)(R0), R2
bit:
	CBZ R2, word
	SUB $1, R2, R3
	AND R3, R2
	ADD $1, R10
	B bit
counted:
	LIMIT(RLIMIT_AS)
	MOVD $const_leastSpace, R3
	SUBS R3, R2
	BLO space
	UDIV R10, R2
	CMP R9, R2
	BLO space
	LIMIT(RLIMIT_DATA)
	MOVD $const_leastData, R3
	SUBS R3, R2
	BLO data
	UDIV R10, R2
	CMP R9, R2
	BLO data
	LIMIT(RLIMIT_NPROC)
	CMP $const_leastThreads, R2
	BHS enough
	MOVD $SYS_getuid, R8
	SVC
	CBNZW R0, threads // the kernel sets root no limit
enough:
	MOVD R11, R0
	ADD $ROOM, RSP
	B _rt0_arm64_linux(SB)
stack:
	MOVD ·littleStack(SB), R1
	MOVD ·littleStack+8(SB), R2
	B refuse
space:
	MOVD ·littleSpace(SB), R1
	MOVD ·littleSpace+8(SB), R2
	B refuse
data:
	MOVD ·littleData(SB), R1
	MOVD ·littleData+8(SB), R2
	B refuse
threads:
	MOVD ·fewThreads(SB), R1
	MOVD ·fewThreads+8(SB), R2
refuse:
	MOVD $2, R0
	MOVD $SYS_write, R8
	SVC
	MOVD $3, R0
	MOVD $SYS_exit_group, R8
	SVC
