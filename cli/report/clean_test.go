package report

import (
	"strings"
	"testing"

	"ringcli/cli/report/redact"
)

// What looks like a secret goes, and what stands around it stays.
func TestClean(t *testing.T) {
	c := redact.New([][]byte{[]byte("0123456789abcdef"), []byte("short")})
	const token, name = "[left out: token]", "[left out: name]"
	for _, x := range []struct{ text, want string }{
		{"rank 3 says 0123456789abcdef, twice: 0123456789abcdef\n", "rank 3 says " + token + ", twice: " + token + "\n"},
		{"a short word\n", "a short word\n"},
		{`{"code":"token","name":"token","value":"set (hidden)","ok":true}`, `{"code":"token","name":"token","value":"set (hidden)","ok":true}`},
		{`{"api_key":"a \"b\" c","next":1}`, `{"api_key":"` + name + `","next":1}`},
		{`{"line":"{\"password\":\"abc def\",\"next\":1}"}`, `{"line":"{\"password\":\"` + name + `\",\"next\":1}"}`},
		{"password: my pass phrase, with a comma\nnext: 1\n", "password: " + name + "\nnext: 1\n"},
		{"Authorization: Bearer abcdef\r\n", "Authorization: " + name + "\r\n"},
		{"export DB_PASSWORD='a b' x=1\n", "export DB_PASSWORD='" + name + "' x=1\n"},
		{"RINGCLI_TOKEN_FILE=/etc/ring.token\n", "RINGCLI_TOKEN_FILE=/etc/ring.token\n"},
		{"token-file: /x password: abc\n", "token-file: /x password: " + name + "\n"},
		{"x_token=0123456789abcdef\n", "x_token=" + token + "\n"},
		{"token=\nnext=1\n", "token=\nnext=1\n"},
		{"a\n-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nb\n", "a\n[left out: private key]\nb\n"},
		{"a -----BEGIN PRIVATE KEY-----\nMII, and no end\n", "a [left out: private key]"},
		{"see https://me:pa55@host/x and http://host:80/a@b\n", "see https://me:[left out: address]@host/x and http://host:80/a@b\n"},
		{"id AKIAABCDEFGHIJKLMNOP ghp_abcdefghijklmnopqrstuvwxyz12\n", "id [left out: key] [left out: key]\n"},
		{"x eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM.abc-def_g y\n", "x [left out: key] y\n"},
		{"tokens: none were hurt in 1e-3 s, task-force sk-8\n", "tokens: " + name + "\n"},
	} {
		got, taken := c.Text([]byte(x.text))
		if string(got) != x.want {
			t.Errorf("%q:\n%q, expected\n%q", x.text, got, x.want)
		}
		if total := strings.Count(x.want, "[left out"); total > 0 != (len(taken) > 0) {
			t.Errorf("%q: told of %v", x.text, taken)
		}
	}
}

// Of variables only those of the stacks are told, and of what holds a secret the name alone.
func TestEnvironment(t *testing.T) {
	text := environment([]string{"UCX_TLS=rc", "HOME=/root", "AWS_SECRET_ACCESS_KEY=hunter2", "NCCL_DEBUG=INFO", `OMPI_MCA_password=two "words"` + "\nhunter2", "NCCL_TOKEN=hunter2", "RINGCLI_LIST=a,b", "XNCCL_=1"})
	clean, taken := redact.New(nil).Text(text)
	want := "NCCL_DEBUG=INFO\nNCCL_TOKEN=\"[left out: name]\"\nOMPI_MCA_password=\"[left out: name]\"\nRINGCLI_LIST=a,b\nUCX_TLS=rc\n"
	if string(clean) != want || taken["name"] != 2 {
		t.Errorf("%s%v: expected\n%s", clean, taken, want)
	}
}
