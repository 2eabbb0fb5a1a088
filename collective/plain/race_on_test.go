//go:build race

package plain

const raceEnabled = true
