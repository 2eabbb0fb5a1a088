//go:build amd64 || arm64

package main

// leastSpace is what the runtime reserves, twice 512 MiB, and what its threads take as the C
// library makes them.
const leastSpace = 2 << 30 //nolint:unused // assembly has it

//nolint:unused // assembly has it
var tooLittle = "ringcli: the address space of a process is limited to less than 2 GiB (`ulimit -v`; a batch system's limit of virtual memory): " +
	"expected more, or better no such limit: most of it is reserved only, and takes no memory\n"
