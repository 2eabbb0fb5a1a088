package trace

import (
	"bytes"
	"testing"
)

// FuzzRead gives files to everything that takes one: whatever they hold, there
// is an error or a result, and what was read can be written and read again.
func FuzzRead(f *testing.F) {
	recorded(f)
	for _, format := range []DumpFormat{DumpChrome, DumpLines} {
		var b bytes.Buffer
		if err := dump(&b, format); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
		b.Reset()
		if err := WriteRecordings(&b, format, fourRanks()); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		list, err := Read(bytes.NewReader(file))
		if err != nil {
			return
		}
		_ = show(&bytes.Buffer{}, list, 80, false) // there may be no operation
		var b bytes.Buffer
		if err := WriteRecordings(&b, DumpLines, list); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(&b); err != nil {
			t.Fatal(err)
		}
		for i := range list {
			list[i].Aligned = false // Merge takes only what is not
		}
		m, err := Merge(list)
		if err != nil {
			return
		}
		if err := m.Write(&bytes.Buffer{}, DumpLines); err != nil {
			t.Fatal(err)
		}
	})
}
