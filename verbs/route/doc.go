// Package route finds the way from here to a peer: which device to use, which row
// of its GID table, and the address vector that a queue pair is given. What it
// chooses it explains, since a wrong choice shows only as silence.
package route
