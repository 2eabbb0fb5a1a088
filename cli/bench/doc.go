// Package bench measures: the collectives as commands, one or several algorithms and
// protocols side by side, what a table of them should be (tune), the link between two
// ranks (p2p), and the self-check.
package bench
