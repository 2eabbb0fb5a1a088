// Package doctor looks at a node before a ring does: devices, limits, ports, names and
// whatever else of the machine a ring stands or falls with. Each check is a pure function of
// what System shows, so that a test provokes each of its verdicts.
package doctor
