// Package repl is the mechanism of an interactive shell: prompt, line editing,
// history, completion, aliases, files of commands, transcripts, background jobs
// and what Ctrl-C does. It knows no command; those are its Host's.
//
// On a terminal lines are edited with readline. Where there is none, or TERM is
// dumb, lines are read as they come and nothing but the commands' output is
// written.
package repl

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"ringcli/configs/codes"
)

// Host is what a Shell runs commands for.
type Host interface {
	// Prompt is asked before every line: a text without escape codes, such as
	// "ring 2/4 RTR>", and the colour to show it in.
	Prompt() (text string, mood Mood)
	// Run runs one line, which may hold several commands. Those that end in "&"
	// are its own to start, with the shell's Jobs.
	Run(ctx context.Context, line string) error
	// Complete returns what the word at byte pos of line may become, and the
	// byte where that word begins.
	Complete(line string, pos int) (candidates []Candidate, from int)
	// Repeatable tells whether Enter on an empty line may run line again.
	Repeatable(line string) bool
	// Secret tells whether line must stay out of history and transcripts.
	Secret(line string) bool
}

// Candidate is a word, unquoted, that a completion offers. A space is put after
// it unless it ends in "/", "=" or ",".
type Candidate struct {
	Text string
	Hint string // a few words on it, listed beside it
}

// Mood is the colour of a prompt.
type Mood int

// The moods.
const (
	Plain Mood = iota // no colour
	Good              // green
	Busy              // yellow: on the way, or to be looked at
	Bad               // red
)

// Options are what a Shell is made of.
type Options struct {
	Host Host

	Stdin  io.Reader // an *os.File, which is waited for without a goroutine
	Stdout io.Writer
	Stderr io.Writer

	HistoryFile string // "" keeps history in memory
	Init        string // a file that is run first; it may be missing

	// OnError is told each error of a line or the shell itself.
	OnError func(error)
	// Interrupt is called at the n-th Ctrl-C (1, 2, ...) while a line runs, on
	// another goroutine than the line's; cancel ends the line's context with
	// the cause ErrInterrupted.
	Interrupt func(n int, cancel func())
}

// historyLimit is how many lines are remembered.
const historyLimit = 1000

// Deadlines.
const (
	// leaveAfter is how long a line may go on after the third Ctrl-C, or after
	// the signal that ends the shell.
	leaveAfter = 10 * time.Second
	// jobsGrace is how long jobs may take to end once they are cancelled.
	jobsGrace = 10 * time.Second
)

// Errors of a Shell.
var (
	// ErrInterrupted is the cause of a line's context after Ctrl-C.
	ErrInterrupted error = interruption{}
	// ErrStopped is the cause of a job's context after Cancel or the end of all, and what
	// a job ends with that was asked to stop and did.
	ErrStopped error = stopping{}
)

// interruption is a cancellation, so that what knows no shell can tell.
type interruption struct{}

func (interruption) Error() string           { return "interrupted" }
func (interruption) FailureCode() codes.Code { return codes.Interrupted }
func (interruption) Is(target error) bool    { return target == context.Canceled }

// stopping is one, too.
type stopping struct{}

func (stopping) Error() string        { return "stopped" }
func (stopping) Is(target error) bool { return target == context.Canceled }

// A SignalError is what ended a Shell from outside.
type SignalError struct{ Signal os.Signal }

func (e *SignalError) Error() string { return "ended by the signal " + e.Signal.String() }

// A PanicError is a panic of a command, which the Shell survived.
type PanicError struct {
	Line  string
	Value any
	Stack []byte
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("%q failed with a defect of this program (panic: %v): the shell goes on, but look at the state of things before relying on them, and report it", e.Line, e.Value)
}
