package configs

import (
	"reflect"
	"slices"
	"time"
)

// A struct of options is tied to the settings by its tags:
//
//	Port      int   `setting:"port"`      // 0 is the default
//	QPTimeout *int  `setting:"qp-timeout"` // 0 is a value of its own: nil is the default
//
// A field is a string, a whole number, a time.Duration, or a pointer to one of
// these. In a pointer, -1 of a setting, "not given", is nil.

// NamesOf returns the settings that are fields of a struct, in the order of
// Settings.
func NamesOf(options any) []string {
	tagged := fieldsOf(reflect.ValueOf(options))
	return slices.DeleteFunc(Names(), func(name string) bool { return !tagged[name].IsValid() })
}

// Fill sets the fields of a struct, given by its address, that settings are for.
func (c *Config) Fill(options any) {
	for name, f := range fieldsOf(reflect.ValueOf(options).Elem()) {
		assign(f, c.Get(name).Value)
	}
}

// Complete gives those fields of a struct, given by its address, that are zero their
// settings' defaults, and checks the others as Setting.Parse does.
func Complete(options any) error {
	// In the order of Settings: the error is the same each time.
	tagged := fieldsOf(reflect.ValueOf(options).Elem())
	for _, s := range Settings {
		f, has := tagged[s.Name]
		if !has {
			continue
		}
		value := s.Default
		if !f.IsZero() {
			var err error
			if value, err = s.Parse(reflect.Indirect(f).Interface()); err != nil {
				return err
			}
		}
		assign(f, value)
	}
	return nil
}

// Default returns the default of a setting.
func Default[T string | int | uint64 | time.Duration](name string) T {
	return mustLookup(name).Default.(T)
}

// fieldsOf returns the fields of a struct that settings are for, those of embedded
// structs too.
func fieldsOf(v reflect.Value) map[string]reflect.Value {
	fields := map[string]reflect.Value{}
	for _, f := range reflect.VisibleFields(v.Type()) {
		if name := f.Tag.Get("setting"); name != "" {
			mustLookup(name)
			fields[name] = v.FieldByIndex(f.Index)
		}
	}
	return fields
}

func assign(f reflect.Value, value any) {
	v := reflect.ValueOf(value)
	if f.Kind() != reflect.Pointer {
		f.Set(v.Convert(f.Type()))
		return
	}
	if n, isInt := value.(int); isInt && n < 0 {
		f.SetZero()
		return
	}
	f.Set(reflect.New(f.Type().Elem()))
	f.Elem().Set(v.Convert(f.Type().Elem()))
}
