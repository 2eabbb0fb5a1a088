package rack

import (
	"bytes"
	"fmt"
	"testing"
)

// readCPIO is written from the format's description alone, to check the writer.
func readCPIO(b []byte) (map[string]string, error) {
	files := map[string]string{}
	for at := 0; ; {
		if at%4 != 0 || len(b) < at+110 || string(b[at:at+6]) != "070701" {
			return nil, fmt.Errorf("no header at %d of %d", at, len(b))
		}
		var field [13]int
		for i := range field {
			if _, err := fmt.Sscanf(string(b[at+6+8*i:at+14+8*i]), "%08X", &field[i]); err != nil {
				return nil, err
			}
		}
		mode, size, nameSize := field[1], field[6], field[11]
		name := string(b[at+110 : at+110+nameSize-1])
		if b[at+110+nameSize-1] != 0 {
			return nil, fmt.Errorf("%q does not end in a zero", name)
		}
		content := (at + 110 + nameSize + 3) &^ 3
		if name == "TRAILER!!!" {
			return files, nil
		}
		files[name] = fmt.Sprintf("%o %d:%d %s", mode, field[9], field[10], b[content:content+size])
		at = (content + size + 3) &^ 3
	}
}

func TestCPIO(t *testing.T) {
	var b bytes.Buffer
	c := cpio{w: &b}
	c.entry("dev", cpioDir|0o755, 0, 0, nil)
	c.entry("dev/console", cpioCharDev|0o600, 5, 1, nil)
	want := map[string]string{"dev": "40755 0:0 ", "dev/console": "20600 5:1 "}
	for n := range 6 { // every remainder of name and content
		name, content := "abcdef"[:n+1], "123456"[:n]
		c.entry(name, cpioFile|0o755, 0, 0, []byte(content))
		want[name] = "100755 0:0 " + content
	}
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	got, err := readCPIO(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Errorf("%d files, wrote %d", len(got), len(want))
	}
	for name, file := range want {
		if got[name] != file {
			t.Errorf("%s: %q, wrote %q", name, got[name], file)
		}
	}
}

type full struct{ left int }

func (f *full) Write(b []byte) (int, error) {
	if len(b) > f.left {
		return 0, fmt.Errorf("no space left")
	}
	f.left -= len(b)
	return len(b), nil
}

func TestCPIOTellsTheFirstError(t *testing.T) {
	c := cpio{w: &full{left: 300}}
	c.entry("a", cpioFile, 0, 0, make([]byte, 100))
	c.entry("b", cpioFile, 0, 0, make([]byte, 100))
	if err := c.close(); err == nil || err.Error() != "no space left" {
		t.Errorf("got %v", err)
	}
}
