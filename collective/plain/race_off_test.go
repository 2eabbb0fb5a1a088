//go:build !race

package plain

const raceEnabled = false
