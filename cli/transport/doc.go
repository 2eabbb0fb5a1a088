// Package transport is the commands over verbs/transport, which needs no ring: one process
// serves, another measures what it is like to write to it. They meet over TCP (package
// talk), by which each gets the other's URL.
package transport
