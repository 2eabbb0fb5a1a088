// Package devices shows the devices of this machine, their ports and GIDs, and why a
// provider has none.
package devices
