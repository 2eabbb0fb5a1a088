// Package failure tells why a command failed: both ends of each edge are asked, what
// disagrees is found, and it is reported once.
package failure
