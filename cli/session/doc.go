// Package session is what a command works with: the streams, the settings, the ring,
// this process's membership in it once it can compute, and whether it leads the other
// ranks or follows. It knows no command.
package session
