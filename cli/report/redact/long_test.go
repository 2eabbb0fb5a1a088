package redact

import (
	"strings"
	"testing"
	"time"
)

// A long text ends promptly, whatever is in it. Most of these take 0.1 s; a pattern that looked
// at the rest of a line again for each of its words took minutes.
func TestLongLines(t *testing.T) {
	const long, promptly = 256 << 10, 20 * time.Second
	r := New([][]byte{[]byte(ringSecret)})
	for _, part := range []string{
		"a=b,pass ", `password="a" `, "sshpass curl -u 'a' ", "mysql -pA ", `"name":"password","value":"x",`, "<a pass ", "<value>x</value>name=token ",
		"token", "token: ", "data > value pass ", "[", `{"a":`, `"`, "password=(", `password=\"`, "-----BEGIN PRIVATE KEY-----", "https://a:b", "eyJaaaaaaaa.",
		"bearer of ", "password is not ", "--password -- ", "user password ", "password for ", "token(", "$1$", ringSecret, ringSecret[:len(ringSecret)-1], "5f", "password=(\n", "data: x\npass: yes\n",
	} {
		begun := time.Now()
		r.Text([]byte(strings.Repeat(part, long/len(part))))
		if took := time.Since(begun); took > promptly {
			t.Errorf("%q: %v for %d bytes", part, took, long)
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
