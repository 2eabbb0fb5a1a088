package render

import (
	"encoding/csv"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Tables of CSV that are no type's.
const (
	FirstTable = "auto" // that of the first record
	AllTables  = "all"  // each, after an empty line
)

// csvTable is which records CSV shows: a stream of several tables is none that readers take.
type csvTable struct {
	only   string         // the name of their type, FirstTable or AllTables
	headed bool           // another process has written the header
	left   map[string]int // records of other types, by these
}

// SetTable chooses the records that CSV shows, by the name of their type.
func (p *Printer) SetTable(name string) { p.csv = &csvTable{only: name, left: map[string]int{}} }

// PreferTable is SetTable, unless a table was asked for by its name or has begun.
func (p *Printer) PreferTable(name string) {
	if p.csv != nil && p.csv.only == FirstTable {
		p.csv.only = name
	}
}

// SetHeaded says that another process has written the header to the same stream.
func (p *Printer) SetHeaded() { p.csv.headed = true }

// LeftOut says which tables CSV did not show; "" if it showed all, or another process says it.
func (p *Printer) LeftOut() string {
	if p.format != CSV || p.csv == nil || p.csv.headed || len(p.csv.left) == 0 {
		return ""
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(p.csv.left)) {
		list = append(list, fmt.Sprintf("%s (%d)", name, p.csv.left[name]))
	}
	return fmt.Sprintf("--output csv has one table, %s: left out are the rows of %s; --csv-table NAME prints one of these, --csv-table %s each after an empty line", p.csv.only, strings.Join(list, ", "), AllTables)
}

func (p *Printer) printCSV(v any) error {
	names, values, err := flatten(v)
	if err != nil || p.csv == nil {
		return err
	}
	if c := p.csv; c.only != AllTables {
		name := reflect.Indirect(reflect.ValueOf(v)).Type().Name()
		if c.only == FirstTable {
			c.only = name
		}
		if name != c.only {
			c.left[name]++
			return nil
		}
	}
	w := csv.NewWriter(p.w)
	if !slices.Equal(names, p.fields) {
		if p.fields != nil {
			if err := p.Text("\n"); err != nil {
				return err
			}
		}
		p.fields = names
		if !p.csv.headed || p.csv.only == AllTables {
			if err := w.Write(names); err != nil {
				return err
			}
		}
	}
	if err := w.Write(values); err != nil {
		return err
	}
	w.Flush()
	return w.Error()
}
