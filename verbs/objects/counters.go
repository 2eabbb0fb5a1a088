package objects

import (
	"reflect"
	"strings"

	"ringcli/verbs"
)

// Counters lists the fields of a struct that have a tag: counter:"name", as mlx5 and
// rdma_rxe name it where they have it. What ends with _data is counted in bytes, and
// listed in words of four as InfiniBand has it.
func Counters[T any](of *T) (list []verbs.Counter) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if name := f.Tag.Get("counter"); name != "" {
			n := reflect.ValueOf(of).Elem().FieldByIndex(f.Index).Uint()
			if strings.HasSuffix(name, "_data") {
				n /= 4
			}
			list = append(list, verbs.Counter{Name: name, Value: n})
		}
	}
	return list
}
