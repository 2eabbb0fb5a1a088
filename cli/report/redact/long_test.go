package redact

import (
	"strings"
	"testing"
	"time"
)

// A text that is eight times as long takes about eight times as long, whatever is in it, where a
// pattern that looked at the rest of a line for each of its words would take 64 times as long.
// Others use the machine too, hence a bound in between, and seconds on top of it.
func TestLongLines(t *testing.T) {
	const short, times, most, others = 32 << 10, 8, 32, 5 * time.Second
	r := New([][]byte{[]byte(ringSecret)})
	for i, part := range []string{
		"a=b,pass ", `password="a" `, "sshpass curl -u 'a' ", "mysql -pA ", `"name":"password","value":"x",`, "<a pass ", "<value>x</value>name=token ",
		"token", "token: ", "data > value pass ", "[", `{"a":`, `"`, "password=(", `password=\"`, "-----BEGIN PRIVATE KEY-----", "https://a:b", "eyJaaaaaaaa.",
		"bearer of ", "password is not ", "--password -- ", "user password ", "password for ", "token(", "$1$", ringSecret, ringSecret[:len(ringSecret)-1], "5f", "password=(\n", "data: x\npass: yes\n",
	} {
		if testing.Short() && i%4 > 0 {
			continue
		}
		text := strings.Repeat(part, short/len(part))
		measure := func(text string) time.Duration {
			begun := time.Now()
			r.Text([]byte(text))
			return time.Since(begun)
		}
		one := measure(text)
		if all := measure(strings.Repeat(text, times)); all > most*one+others {
			t.Errorf("%q: %v for %d bytes, %v for %d times as many", part, one, len(text), all, times)
		}
	}
}

func BenchmarkText(b *testing.B) {
	for i, text := range append(harmlessTexts(b), strings.Repeat(`{"time":"2026-11-28T00:35:16.090085496Z","level":"DEBUG","msg":"sent","subsystem":"verbs","rank":1,"qpn":1193,"psn":8388607,"local":"10.0.0.1:4791"}`+"\n", 1<<12)) {
		b.Run([]string{"lines", "ringcli", "trace"}[i], func(b *testing.B) {
			r := New([][]byte{[]byte(ringSecret)})
			long := []byte(strings.Repeat(text, 1+1<<20/len(text)))
			b.SetBytes(int64(len(long)))
			for b.Loop() {
				r.Text(long)
			}
		})
	}
}
