package command

import (
	"context"
	"io"
	"reflect"
	"slices"
	"sync"

	"github.com/spf13/pflag"
)

// RunLine runs the command that the words of a line are. w is where help goes. keeps says that the
// command still reads its flags after run has returned, as a job does.
//
// The flags of a command are declared once and serve one line after the other: a script may have
// tens of thousands of lines, and all are checked before the ring is joined. Cobra answers a line
// that asks for help or has a mistake.
func (t *Table) RunLine(ctx context.Context, w io.Writer, words []string, keeps bool, run RunFunc) error {
	if d := t.flags.lend(t, words); d != nil {
		if !keeps {
			defer t.flags.giveBack(d)
		}
		if d.set.Parse(words[1:]) == nil && d.row.checkArgs("", d.set.Args()) == nil {
			return run(ctx, d.row, Call{Name: d.row.Name, Flags: d.set, Args: d.set.Args(), Table: t})
		}
	}
	root := t.LineTree(w, run)
	root.SetArgs(slices.Clip(words))
	return root.ExecuteContext(ctx)
}

// lineFlags are the flags of the commands of lines that no line uses now, by the command's name.
type lineFlags struct {
	mu   sync.Mutex
	rows map[string]Row // by name and alias
	free map[string][]*declared
}

// declared is a command's flags, for one line at a time.
type declared struct {
	row   Row
	set   *pflag.FlagSet
	clean pflag.FlagSet // the set before it has parsed anything
	flags []declaredFlag
}

// declaredFlag is a flag with the value that it was declared with.
type declaredFlag struct {
	*pflag.Flag
	value reflect.Value // of what Flag.Value points to
	list  []string      // of a flag that is a list of pflag's
}

// lend returns the flags of the command that the words begin with; nil if there is none. Help is
// about the whole tree, which cobra has.
func (l *lineFlags) lend(t *Table, words []string) *declared {
	if len(words) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rows == nil {
		l.rows, l.free = map[string]Row{}, map[string][]*declared{}
		for _, c := range t.Rows {
			if c.Where&Line == 0 || c.Name == "help" {
				continue
			}
			for _, name := range append([]string{c.Name}, c.Aliases...) {
				l.rows[name] = c
			}
		}
	}
	c, found := l.rows[words[0]]
	if !found {
		return nil
	}
	if free := l.free[c.Name]; len(free) > 0 {
		l.free[c.Name] = free[:len(free)-1]
		return free[len(free)-1]
	}
	return declare(c)
}

// giveBack resets the flags that a line has given, for another line.
func (l *lineFlags) giveBack(d *declared) {
	d.reset()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free[d.row.Name] = append(l.free[d.row.Name], d)
}

func declare(c Row) *declared {
	d := &declared{row: c, set: pflag.NewFlagSet(c.Name, pflag.ContinueOnError)}
	c.declare(d.set)
	d.set.Usage = func() {} // cobra answers --help
	d.set.VisitAll(func(f *pflag.Flag) {
		was := declaredFlag{Flag: f, value: reflect.ValueOf(reflect.ValueOf(f.Value).Elem().Interface())}
		if list, is := f.Value.(pflag.SliceValue); is {
			was.list = list.GetSlice()
		}
		d.flags = append(d.flags, was)
	})
	d.clean = *d.set
	return d
}

func (d *declared) reset() {
	for _, f := range d.flags {
		if !f.Changed {
			continue
		}
		reflect.ValueOf(f.Value).Elem().Set(f.value)
		if list, is := f.Value.(pflag.SliceValue); is {
			_ = list.Replace(f.list) // which the flag has had
		}
		f.Changed = false
	}
	*d.set = d.clean
}
