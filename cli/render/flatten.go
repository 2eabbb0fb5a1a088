package render

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// flatten turns a record into CSV's columns, the same for all records of a type:
//
//   - a field of a nested struct: both names, joined by "_"
//   - a list of numbers or of texts: one field, the items separated by blanks,
//     or by "; " if an item has a blank itself
//   - a list of structs, or a map: one field, as JSON; a row for each would
//     repeat all the rest
//   - nil: an empty field
//
// What has no json name is left out.
func flatten(record any) (names, values []string, err error) {
	v := reflect.Indirect(reflect.ValueOf(record))
	if v.Kind() != reflect.Struct {
		return nil, nil, fmt.Errorf("render %T as CSV: expected a struct", record)
	}
	appendFields("", v.Type(), v, &names, &values)
	return names, values, nil
}

// appendFields takes the type apart from the value, which is not valid for the
// fields of a nil struct: they keep their columns.
func appendFields(prefix string, t reflect.Type, v reflect.Value, names, values *[]string) {
	for _, f := range Fields(t) {
		ft, fv := f.Type, reflect.Value{}
		if v.IsValid() {
			fv = v.FieldByIndex(f.Index)
		}
		if ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
			if fv.IsValid() {
				fv = fv.Elem() // not valid if it is nil
			}
		}
		switch {
		case f.JSON == "":
		case ft.Kind() == reflect.Struct && !isText(ft):
			appendFields(prefix+f.JSON+"_", ft, fv, names, values)
		default:
			*names, *values = append(*names, prefix+f.JSON), append(*values, scalar(fv))
		}
	}
}

// Field is one of a record's that JSON shows.
type Field struct {
	reflect.StructField              // its Index counts from the record
	Of                  reflect.Type // the struct that declares it
	JSON                string       // its name; empty if it was forgotten
	Optional            bool         // it is left out when it is empty
}

// Fields are those of a struct and of the structs embedded in it. As in JSON, a
// field hides those of the same name in an embedded struct.
func Fields(t reflect.Type) []Field { return fieldsOf(t, nil, nil) }

func fieldsOf(t reflect.Type, index []int, hidden []string) (list []Field) {
	own := slices.Clone(hidden)
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" {
			own = append(own, name)
		}
	}
	for i := range t.NumField() {
		f := t.Field(i)
		f.Index = append(slices.Clone(index), i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported() && !f.Anonymous, name == "-", slices.Contains(hidden, name):
		case f.Anonymous && name == "":
			list = append(list, fieldsOf(f.Type, f.Index, own)...)
		default:
			list = append(list, Field{f, t, name, strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")})
		}
	}
	return list
}

var textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()

func isText(t reflect.Type) bool { return t.Implements(textMarshaler) }

func scalar(v reflect.Value) string {
	if !v.IsValid() {
		return ""
	}
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		text, err := m.MarshalText()
		if err != nil {
			return err.Error()
		}
		return string(text)
	}
	if _, ok := v.Interface().(json.Marshaler); ok {
		return strings.Trim(object(v), `"`)
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return scalar(v.Elem())
	case reflect.Float32, reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'f', -1, 64)
	case reflect.Slice, reflect.Array, reflect.Map:
		return list(v)
	}
	return fmt.Sprint(v.Interface())
}

// list writes a list or a map.
func list(v reflect.Value) string {
	if v.Len() == 0 {
		return ""
	}
	if v.Kind() == reflect.Map || !isScalar(v.Type().Elem()) {
		return object(v)
	}
	items, between := make([]string, v.Len()), " "
	for i := range items {
		items[i] = scalar(v.Index(i))
		if strings.Contains(items[i], " ") {
			between = "; "
		}
	}
	return strings.Join(items, between)
}

func isScalar(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Slice, reflect.Array, reflect.Map, reflect.Interface:
		return isText(t)
	}
	return true
}

func object(v reflect.Value) string {
	text, err := json.Marshal(v.Interface())
	if err != nil {
		return err.Error()
	}
	return string(text)
}
