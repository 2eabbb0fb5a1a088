package repl

import (
	"context"
	"errors"
)

// errCleared is Ctrl-C while a line is edited; the line comes with it.
var errCleared = errors.New("line cleared")

// editor reads lines. All but show and interrupt are called by the shell's
// goroutine alone.
type editor interface {
	// ReadLine shows the prompt and returns the line that was typed, without
	// its end. io.EOF: there are no more; errCleared: Ctrl-C, with what had
	// been typed; the context's cause once it has ended.
	ReadLine(ctx context.Context, prompt string) (string, error)
	// SetHistory gives the lines that earlier ones are chosen from.
	SetHistory(lines []string)
	// show asks for the screen's queue to be shown above the prompt. It does
	// not wait.
	show()
	// interrupt is SIGINT while a line is edited. It does not wait.
	interrupt()
	Close() error
}
