package report

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// rule is a way to tell a secret by what stands around it, or by its own form.
type rule struct {
	name, what string
	// hints are in lower case: a line without any has no such secret. None: whole texts are
	// looked at.
	hints []string
	found *regexp.Regexp // what its first group has stays
}

// secretNames are in the names of what holds a secret.
var secretNames = []string{"token", "secret", "passw", "passphrase", "credential", "api_key", "api-key", "apikey", "access_key", "access-key", "accesskey",
	"private_key", "private-key", "privatekey", "authorization"}

var secretName = "(?i)(?:" + strings.Join(secretNames, "|") + ")"

// The rules, but for that of the ring's own token, which is searched for as it is.
var rules = []rule{
	{"private key", "a private key", nil, regexp.MustCompile(`()-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)`)},
	// A value in quotes, in quotes within a text in quotes, or to the end of the line.
	{"name", "what follows a name such as password, secret, token, credential or api-key", secretNames,
		regexp.MustCompile(`(` + secretName + `[\w.-]*\\*["']?[ \t]*[=:][ \t]*)(?:\\+"[^"\n]*"|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^\r\n"\\][^\r\n"]*)`)},
	{"key", "what has the form of a provider's key or of a JSON web token", []string{"eyj", "akia", "asia", "gh", "glpat-", "xox", "sk-"},
		regexp.MustCompile(`()\b(?:eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+|A[KS]IA[0-9A-Z]{16}|gh[a-z]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[a-z]-[\w-]{10,}|sk-[\w-]{20,})`)},
	{"address", "the password in an address such as https://user:password@host", []string{"://"}, regexp.MustCompile(`(\b[a-zA-Z][\w+.-]*://[^\s/:@]*:)[^\s/@]+@`)},
}

var (
	isSecretName = regexp.MustCompile(secretName)
	// namesFile is the end of a name whose value is where a secret is, which is none.
	namesFile = regexp.MustCompile(`(?i)[_-](?:file|path|dir)\\*["']?[ \t]*[=:][ \t]*$`)
)

// tokenRule is that of the ring's token.
const tokenRule = "token"

// shortest is what may be searched for as a secret: less is in many a word. No ring takes a
// token as short.
const shortest = 8

// cleaner takes secrets out.
type cleaner struct{ tokens [][]byte }

// text returns what is left of a text, and how much each rule took out.
func (c cleaner) text(b []byte) (clean []byte, taken map[string]int) {
	taken = map[string]int{}
	for _, t := range c.tokens {
		if n := bytes.Count(b, t); len(t) >= shortest && n > 0 {
			b, taken[tokenRule] = bytes.ReplaceAll(b, t, leftOut(tokenRule)), taken[tokenRule]+n
		}
	}
	for _, r := range rules {
		if r.hints == nil {
			b = r.apply(b, taken)
		}
	}
	var out []byte
	for line := range bytes.Lines(b) {
		lower := bytes.ToLower(line)
		for _, r := range rules {
			if slices.ContainsFunc(r.hints, func(hint string) bool { return bytes.Contains(lower, []byte(hint)) }) {
				line = r.apply(line, taken)
			}
		}
		out = append(out, line...)
	}
	return out, taken
}

func (r rule) apply(b []byte, taken map[string]int) []byte {
	return r.found.ReplaceAllFunc(b, func(match []byte) []byte {
		before := r.found.FindSubmatch(match)[1]
		value := match[len(before):]
		inner := bytes.Trim(value, `\"'`)
		switch quote := value[:bytes.Index(value, inner)]; {
		case namesFile.Match(before):
			return slices.Concat(before, r.apply(value, taken))
		case len(inner) == 0, bytes.HasPrefix(inner, []byte("[left out: ")) && bytes.HasSuffix(inner, []byte("]")):
			return match
		case r.name == "name":
			taken[r.name]++
			return slices.Concat(before, quote, leftOut(r.name), quote) // JSON stays JSON
		default:
			taken[r.name]++
			return slices.Concat(before, leftOut(r.name))
		}
	})
}

func leftOut(rule string) []byte { return fmt.Appendf(nil, "[left out: %s]", rule) }

// taken in words: "2 by the rule name".
func words(taken map[string]int) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(taken)) {
		list = append(list, fmt.Sprintf("%d by the rule %s", taken[name], name))
	}
	return strings.Join(list, ", ")
}

// stacks are how the names of variables begin that say how a ring, or a peer's stack, runs.
var stacks = []string{"RINGCLI_", "NCCL_", "UCX_", "OMPI_"}

// environment are the variables of the stacks, a line each; no other's name is told.
func environment(environ []string) []byte {
	var b bytes.Buffer
	slices.Sort(environ)
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !slices.ContainsFunc(stacks, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			continue
		}
		// Quoted, a value ends where it ends.
		if isSecretName.MatchString(name) || strings.ContainsAny(value, "\r\n\"'\\") {
			value = strconv.Quote(value)
		}
		fmt.Fprintf(&b, "%s=%s\n", name, value)
	}
	return b.Bytes()
}
