// Package connect has the commands of a process that is one rank: connect, and shell,
// which begins without a ring.
package connect
