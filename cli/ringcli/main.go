// Command ringcli brings up an RDMA ring, runs collectives over it, and says
// which link or rank is at fault when something is wrong.
package main

import (
	"os"
	"runtime"

	"ringcli/cli"
)

// The goroutine that polls keeps its thread: the runtime would move it to another a
// hundred times a second, and the kernel each time choose a CPU anew, which costs a
// tenth of an operation's time where ranks outnumber CPUs.
func init() { runtime.LockOSThread() }

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
