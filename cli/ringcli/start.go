//go:build amd64 || arm64

package main

// What the process needs until package session counts exactly. The stack of a thread is as large
// as the limit of stacks says, 8 MiB as a rule: glibc maps it at once, so it counts as address space
// and as data. The runtime may start a thread for each CPU before main runs.
//
//nolint:unused // assembly has them
const (
	// leastSpace is what the runtime reserves, twice 512 MiB, and what the C library does.
	leastSpace = 1920 << 20
	// leastData is variables of 35 MiB, of which crypto/rand has 32, the heap and its tables.
	leastData = 128 << 20
	// leastStack is twice what the signal handlers of Go and the C library have needed.
	leastStack = 64 << 10
	// usualStack counts where stacks have no limit: glibc takes 2 MiB then.
	usualStack = 8 << 20
	// leastThreads is what one process takes on a machine of few CPUs.
	leastThreads = 12
	// maskWords is the size of a mask of CPUs, for 1024 of them, in words of 8 bytes.
	maskWords = 16
)

//nolint:unused // assembly has them
var (
	littleSpace = "ringcli: the address space of a process is limited (`ulimit -v`; a batch system's limit of virtual memory): " +
		"expected 1920 MiB or more, and the stacks (`ulimit -s`) of 12 threads and of one for each CPU; or no limit: `ulimit -v unlimited`. " +
		"Most of it is reserved only, and takes no memory\n"
	littleData = "ringcli: the data of a process is limited (`ulimit -d`): " +
		"expected 128 MiB or more, and the stacks (`ulimit -s`) of 12 threads and of one for each CPU; or no limit: `ulimit -d unlimited`\n"
	littleStack = "ringcli: the stack of a thread is limited to less than 64 KiB (`ulimit -s`): expected 64 KiB or more, 8 MiB as a rule: `ulimit -s 8192`\n"
	fewThreads  = "ringcli: this user may have fewer than 12 threads (`ulimit -u`): expected 12 or more for each process of ringcli: `ulimit -u unlimited`\n"
)
