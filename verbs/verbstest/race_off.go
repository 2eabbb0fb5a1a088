//go:build !race

package verbstest

// Race tells whether the race detector is on, under which all takes many times as long.
const Race = false
