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
	appendFields("", v.Type(), v, nil, &names, &values)
	return names, values, nil
}

// appendFields takes the type apart from the value, which is not valid for the
// fields of a nil struct: they keep their columns. As in JSON, a field hides those
// of the same name in an embedded struct.
func appendFields(prefix string, t reflect.Type, v reflect.Value, hidden []string, names, values *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() && !f.Anonymous || name == "-" || name == "" && !f.Anonymous || slices.Contains(hidden, name) {
			continue
		}
		ft, fv := f.Type, reflect.Value{}
		if v.IsValid() {
			fv = v.Field(i)
		}
		if ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
			if fv.IsValid() {
				fv = fv.Elem() // not valid if it is nil
			}
		}
		switch {
		case isText(ft):
			*names, *values = append(*names, prefix+name), append(*values, scalar(fv))
		case f.Anonymous && name == "":
			appendFields(prefix, ft, fv, append(hidden, ownNames(t)...), names, values)
		case ft.Kind() == reflect.Struct:
			appendFields(prefix+name+"_", ft, fv, nil, names, values)
		default:
			*names, *values = append(*names, prefix+name), append(*values, scalar(fv))
		}
	}
}

// ownNames are the json names of a struct's own fields.
func ownNames(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	return names
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
