package render

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// flatten turns a record into CSV's columns: a field's json name, and for a
// field of a nested struct both names joined by "_". Lists have no place in a
// row and are left out; so is what has no json name. Nil is empty.
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
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" || name == "" && !f.Anonymous {
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
		case f.Anonymous:
			appendFields(prefix, ft, fv, names, values)
		case ft.Kind() == reflect.Struct:
			appendFields(prefix+name+"_", ft, fv, names, values)
		case ft.Kind() == reflect.Slice, ft.Kind() == reflect.Map:
		default:
			*names, *values = append(*names, prefix+name), append(*values, scalar(fv))
		}
	}
}

var textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()

func isText(t reflect.Type) bool { return t.Implements(textMarshaler) }

func scalar(v reflect.Value) string {
	if !v.IsValid() {
		return ""
	}
	if v.Kind() == reflect.Float64 {
		return strconv.FormatFloat(v.Float(), 'f', -1, 64)
	}
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		text, err := m.MarshalText()
		if err != nil {
			return err.Error()
		}
		return string(text)
	}
	return fmt.Sprint(v.Interface())
}
