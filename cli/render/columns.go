package render

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"ringcli/configs"
)

// What a table shows of a record is said in its fields' tag "col":
//
//	Bytes uint64 `json:"bytes" col:"bytes|8|size"`
//
// First comes the column's name, then, in any order:
//
//	8        the least width (Column.Width)
//	left     to the left; right: to the right. Texts stand left, numbers right
//	%06x     how fmt writes the value; else texts are as they are, and a number
//	         with a fraction is a Figure
//	size     bytes, with a unit where digits would not fit; unit: always with one
//	us       nanoseconds, shown as microseconds
//	len      how many elements
//	wrong    a *uint64 that counts errors: nil if nothing was checked
//	dash     the zero value is "-", as nil always is
//	verdict  good if the record's field OK is set, else bad; bad, fair: if it is not set
//
// Columns stand in the order of the fields, but for one that says first, last or
// before=NAME. A field that is a struct has a column for each of its fields that
// are named, separated by semicolons: `col:"P50=p50 us|8; P99=p99 us|8"`.

// Adjuster is a record of which a tag cannot say all: Adjust is called for each cell
// after it was made.
type Adjuster interface{ Adjust(column string, c *Cell) }

// Tabular is a record whose columns differ from one to the next of its type: Row has
// them, and a cell for each.
type Tabular interface{ Row() ([]Column, []Cell) }

// column is one, and where its value comes from.
type column struct {
	Column
	field   []int
	verb    string // of fmt
	options []string
	before  string // the column that it stands before
}

var options = []string{"left", "right", "size", "unit", "us", "len", "wrong", "dash", "verdict", "bad", "fair", "first", "last"}

// is tells whether one of these options is given.
func (c *column) is(options ...string) bool {
	return slices.ContainsFunc(c.options, func(o string) bool { return slices.Contains(options, o) })
}

// parseColumns reads the tag of a field.
func parseColumns(f reflect.StructField, tag string) (list []column) {
	for part := range strings.SplitSeq(tag, ";") {
		words := strings.Split(strings.TrimSpace(part), "|")
		field := f
		if path, name, nested := strings.Cut(words[0], "="); nested {
			words[0] = name
			for step := range strings.SplitSeq(path, ".") {
				inner, found := field.Type.FieldByName(step)
				if !found {
					panic(fmt.Sprintf("render: %s: no field %s", f.Type, path))
				}
				inner.Index = slices.Concat(field.Index, inner.Index)
				field = inner
			}
		}
		list = append(list, newColumn(field, words[0], words[1:]))
	}
	return list
}

// Select is a row of those fields of a struct that a text names, which is written
// like the tag of a field that is a struct.
func Select(v any, fields string) (head []Column, row []Cell) {
	r := reflect.ValueOf(v)
	for _, c := range parseColumns(reflect.StructField{Type: r.Type()}, fields) {
		head, row = append(head, c.Column), append(row, c.cell(r.FieldByIndex(c.field)))
	}
	return head, row
}

var columnsByType sync.Map // reflect.Type to []column

func columnsOf(t reflect.Type) []column {
	if known, found := columnsByType.Load(t); found {
		return known.([]column)
	}
	var inOrder []column
	for _, f := range reflect.VisibleFields(t) {
		tag, found := f.Tag.Lookup("col")
		if !found {
			continue
		}
		inOrder = append(inOrder, parseColumns(f, tag)...)
	}
	if len(inOrder) == 0 {
		panic(fmt.Sprintf("render: %s has no columns", t))
	}
	list := arrange(inOrder)
	columnsByType.Store(t, list)
	return list
}

// arrange moves the columns that say where they stand.
func arrange(inOrder []column) (list []column) {
	var first, last, moved []column
	for _, c := range inOrder {
		switch {
		case c.is("first"):
			first = append(first, c)
		case c.is("last"):
			last = append(last, c)
		case c.before != "":
			moved = append(moved, c)
		default:
			list = append(list, c)
		}
	}
	list = slices.Concat(first, list, last)
	for _, c := range moved {
		at := slices.IndexFunc(list, func(other column) bool { return other.Name == c.before })
		list = slices.Insert(list, at, c)
	}
	return list
}

func newColumn(f reflect.StructField, name string, words []string) column {
	c := column{Column: Column{Name: name}, field: f.Index}
	for _, word := range words {
		if width, err := strconv.Atoi(word); err == nil {
			c.Width = width
		} else if strings.Contains(word, "%") {
			c.verb = word
		} else if name, found := strings.CutPrefix(word, "before="); found {
			c.before = name
		} else if slices.Contains(options, word) {
			c.options = append(c.options, word)
		} else {
			panic(fmt.Sprintf("render: column %q: unknown option %q: expected one of %s", c.Name, word, strings.Join(options, ", ")))
		}
	}
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	number := t.Kind() >= reflect.Int && t.Kind() <= reflect.Float64 && !isText(t) || c.is("len")
	c.Left = !c.is("right") && (!number || c.is("left"))
	return c
}

// Row are the columns of a record's table, and its cell in each.
func Row(r Record) (head []Column, row []Cell) {
	if t, own := r.(Tabular); own {
		return t.Row()
	}
	v := reflect.ValueOf(r)
	for _, c := range columnsOf(v.Type()) {
		cell := c.cell(v.FieldByIndex(c.field))
		switch ok := v.FieldByName("OK"); {
		case c.is("verdict", "bad") && !ok.Bool():
			cell.Mood = Bad
		case c.is("fair") && !ok.Bool():
			cell.Mood = Fair
		case c.is("verdict"):
			cell.Mood = Good
		}
		if a, own := r.(Adjuster); own {
			a.Adjust(c.Name, &cell)
		}
		head, row = append(head, c.Column), append(row, cell)
	}
	return head, row
}

func (c *column) cell(v reflect.Value) Cell {
	switch {
	case c.is("wrong"):
		return Wrong(v.Interface().(*uint64))
	case c.is("len"):
		return Cell{Text: strconv.Itoa(v.Len())}
	case c.is("dash") && v.IsZero(), v.Kind() == reflect.Pointer && v.IsNil():
		return Cell{Text: "-"}
	case v.Kind() == reflect.Pointer:
		v = v.Elem()
	}
	switch {
	case c.is("size"):
		return Cell{Text: Size(v.Uint())}
	case c.is("unit"):
		return Cell{Text: configs.FormatSize(v.Uint())}
	case c.is("us"):
		v = reflect.ValueOf(float64(v.Int()) / 1e3)
	}
	switch {
	case c.verb != "":
		return Cell{Text: fmt.Sprintf(c.verb, v.Interface())}
	case v.Kind() == reflect.String && !v.CanInterface():
		return Cell{Text: v.String()}
	case v.CanFloat():
		return Cell{Text: Figure(v.Float())}
	}
	return Cell{Text: scalar(v)}
}
