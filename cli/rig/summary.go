package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// summary prints a table by kind. It is an error if an accusation is wrong, if less than 95 %
// of the cases are right, or if exit codes, texts or files are not as they must be.
func summary(w io.Writer, all map[int]outcome) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "kind\tcases\tright\tnobody\twrong\tbroken\tbad\tp50 s\tp99 s\twall s\t")
	total := map[grade]int{}
	bads := 0
	line := func(name string, of func(o *outcome) bool) {
		grades := map[grade]int{}
		var seconds []float64
		n, bad, wall := 0, 0, 0.0
		for _, o := range all {
			if !of(&o) {
				continue
			}
			n++
			grades[o.Grade]++
			if wall += o.Wall; o.Seconds > 0 {
				seconds = append(seconds, o.Seconds)
			}
			if len(o.Bad) > 0 {
				bad++
			}
		}
		if n == 0 {
			return
		}
		slices.Sort(seconds)
		quantile := func(q float64) string {
			if len(seconds) == 0 {
				return "-"
			}
			return fmt.Sprintf("%.1f", seconds[int(q*float64(len(seconds)-1))])
		}
		_, _ = fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%.1f\t\n", name, n, grades[right], grades[nobody], grades[wrong], grades[broken], bad, quantile(0.5), quantile(0.99), wall/float64(n))
		total, bads = grades, bad
	}
	for _, name := range kindNames() {
		line(name, func(o *outcome) bool { return o.Kind == name })
	}
	line("all", func(*outcome) bool { return true })
	err := t.Flush()
	if total[wrong] > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d cases have a wrong accusation", total[wrong], len(all)))
	}
	if total[right]*100 < len(all)*95 {
		err = errors.Join(err, fmt.Errorf("%d of %d cases are right: expected 95 %%", total[right], len(all)))
	}
	if bads > 0 {
		err = errors.Join(err, fmt.Errorf("in %d of %d cases exit codes, text or files are not as they must be", bads, len(all)))
	}
	return err
}
