// Command ringcli brings up an RDMA ring, runs collectives over it, and says
// which link or rank is at fault when something is wrong.
package main

import (
	"os"

	"ringcli/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
