package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// row sums up the cases of a kind.
type row struct {
	cases, died, verdicts, bad int
	grades                     map[grade]int
	seconds                    []float64
}

func (r *row) add(c *outcome) {
	r.cases++
	if len(c.Verdicts) > 0 {
		r.died++
	}
	if len(c.Bad) > 0 {
		r.bad++
	}
	for _, g := range c.Grades {
		r.grades[g]++
		r.verdicts++
	}
	r.seconds = append(r.seconds, c.Seconds...)
}

func (r *row) named() int { return r.grades[certain] + r.grades[right] }

// summary prints a table of all cases, and tells whether they are as they must be: of the
// verdicts on kills 99 % name the right rank, 95 % as certain; no verdict names a wrong one
// as certain; and nothing else is bad.
func summary(w io.Writer, all map[int]outcome) error {
	rows, total := map[string]*row{}, &row{grades: map[grade]int{}}
	var kills row
	var longer []int
	kills.grades = map[grade]int{}
	for _, number := range slices.Sorted(maps.Keys(all)) {
		c := all[number]
		name := c.Kind
		if c.Proto != "" {
			name += " " + c.Proto
		}
		name += "\t" + c.Provider
		if rows[name] == nil {
			rows[name] = &row{grades: map[grade]int{}}
		}
		rows[name].add(&c)
		total.add(&c)
		if c.Kind == kill {
			kills.add(&c)
		}
		if c.Took > 0 {
			longer = append(longer, number)
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "kind\tprovider\tcases\tended\tverdicts\tright %\tcertain %\tvague %\twrong %\twrong as certain\tp50 s\tp99 s\tmax s\tbad\t")
	line := func(name string, r *row) {
		share := func(n int) string {
			if r.verdicts == 0 {
				return "-"
			}
			return fmt.Sprintf("%.1f", 100*float64(n)/float64(r.verdicts))
		}
		slices.Sort(r.seconds)
		quantile := func(q float64) string {
			if len(r.seconds) == 0 {
				return "-"
			}
			return fmt.Sprintf("%.2f", r.seconds[int(q*float64(len(r.seconds)-1))])
		}
		_, _ = fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%d\t\n", name, r.cases, r.died, r.verdicts, share(r.named()), share(r.grades[certain]),
			share(r.grades[vague]), share(r.grades[wrong]+r.grades[wrongCertain]), r.grades[wrongCertain], quantile(0.5), quantile(0.99), quantile(1), r.bad)
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		line(name, rows[name])
	}
	line("all\t", total)
	if err := t.Flush(); err != nil {
		return err
	}
	if len(longer) > 0 {
		_, _ = fmt.Fprintf(w, "of the cuts for a moment, %d lasted longer than planned, for the machine was busy, and may have ended the ring: cases %d\n", len(longer), longer)
	}
	var errs []error
	if kills.named()*100 < kills.verdicts*99 {
		errs = append(errs, fmt.Errorf("%d of %d verdicts on kills name the right rank: expected 99 %%", kills.named(), kills.verdicts))
	}
	if kills.grades[certain]*100 < kills.verdicts*95 {
		errs = append(errs, fmt.Errorf("%d of %d verdicts on kills do so as certain: expected 95 %%", kills.grades[certain], kills.verdicts))
	}
	if total.bad > 0 {
		errs = append(errs, fmt.Errorf("%d of %d cases are bad", total.bad, total.cases))
	}
	return errors.Join(errs...)
}
