// Package render writes results: as a table for people, as one JSON object a
// line, or as CSV. A command makes a record, which is data; how it looks is
// decided here.
package render

// Record is one result: a struct. Its json tags say what JSON and CSV show, and its
// col tags what a table shows (columns.go).
type Record any

// Parts is implemented by a record whose table row stands for several records
// of JSON and CSV, as a row of nccl-tests does for out-of-place and in-place.
type Parts interface{ Parts() []Record }

// NCCLTester is a record that nccl-tests prints, too: NCCLTests returns its lines, each with
// its line feed, in columns that programs read by their position.
type NCCLTester interface{ NCCLTests() string }

// Told is a record of which people are told in lines, as Note writes them, in place
// of a row.
type Told interface{ Lines() []Line }

// Line is one of them.
type Line struct {
	Text string
	Mood Mood
}

// Column is the head of a table's column.
type Column struct {
	Name string
	// Width is the least width in characters. Rows that are printed one by one
	// stay aligned as long as their cells fit.
	Width int
	// Left aligns to the left, as names are; numbers stand to the right.
	Left bool
}

// Mood is what a cell or a line says about its subject; on a terminal it is a
// colour.
type Mood uint8

// The moods.
const (
	Plain Mood = iota
	Good       // green
	Fair       // yellow: a warning
	Bad        // red
	Faint      // grey: less important
)

// Cell is one field of a table's row.
type Cell struct {
	Text string
	Mood Mood
}
