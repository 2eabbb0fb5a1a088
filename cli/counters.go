package cli

import (
	"reflect"
	"strings"
	"unicode"
)

// counters returns the device's counters as "device/name" and the collectives'
// as "collective/name".
func (m *Member) counters() (map[string]uint64, error) {
	device, err := m.ring.Counters()
	if err != nil {
		return nil, err
	}
	all := make(map[string]uint64, len(device))
	for _, c := range device {
		all["device/"+c.Name] = c.Value
	}
	stats := reflect.ValueOf(m.comm.Stats())
	for i := range stats.NumField() {
		all["collective/"+snakeCase(stats.Type().Field(i).Name)] = stats.Field(i).Uint()
	}
	return all, nil
}

// snakeCase writes a Go name as counters are written: CopiedAllGather is
// copied_all_gather, RTS is rts.
func snakeCase(name string) string {
	runes := []rune(name)
	var b strings.Builder
	for i, r := range runes {
		begins := i > 0 && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if begins {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
