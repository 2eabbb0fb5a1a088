package redact

import (
	"bytes"
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Rule is a way to recognize a secret. Name stands in the marker that replaces the secret.
type Rule struct {
	Name, What string
	// A form that is found ends where the value begins. If whole is set, what is found is the
	// secret, except for its group, which stays. named rules have what stands around a name.
	whole, named, pair bool
	forms              []form
	not                *regexp.Regexp // values that are no secrets
}

// form is what a rule looks for in a text that has one of some words, in lower case.
type form struct {
	hints         [][]byte
	found         *regexp.Regexp
	before, after *regexp.Regexp
}

// Names of what holds a secret, in lower case and without separators: anywhere in a name, at its
// end, and those that end in "key".
const (
	wordsWithin = `passw|passphrase|passcode|pwd|secret|token|credential|authorization|cookie|bearer|jwt|sess(?:ion)?id|community|kennwort|keydata|psk`
	wordsAtEnd  = `pass|pw|auth|creds?|totp|passin|passout`
	keysOf      = `api|access|private|auth|encryption|encrypt|signing|sign|shared|preshared|account|master|ssh|license|munge|cipher|decryption|session|storage|service|app|webhook|functions`
)

// pattern is compiled when it is first used: most commands never need it.
func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

var (
	secretName = pattern(`(?:` + wordsWithin + `)|(?:` + wordsAtEnd + `|(?:` + keysOf + `)keys?)$`)
	secretKey  = pattern(`(?:` + keysOf + `)key$|passphrase$`)
	// otherName are names of something about a secret, of counts, and of words that contain such a name.
	otherName = pattern(`^no(?:passw|pass|pw|token|auth|secret|cookie|cred)|(?:file|files|path|dir|folder|name|type|length|len|size|bytes|url|uri|endpoint|policy|ttl|timeout|version|stdin|prompt|izer|persec|persecond|ref|keyref|required|enabled|passwordencryption)$|(?:^|[^c])counts?$|` +
		`(?:max|min|num|total|input|output|new|sync|synced)(?:tokens|cookies)(?:sent|recv|failed)?$|syncookies|(?:by|com|sur|tres|over|multi|single|one|two|first|second|all)pass$`)
	sourceFile = pattern(`\.(?:go|c|h|cc|cpp|py|rs|js|ts|java|txt|log|so|conf|service|sh)$`)
	// harmless are values that tell no secret.
	harmless = pattern(`^(?i:true|false|yes|no|on|off|null|nil|none|<none>|<nil>|<unset>|unset|~|-|\{\}|\[\]|\*+|x{3,}|<?(?:hidden|redacted|masked|removed)>?|(?:(?:env|file|flag|default) \S+ +)?set \(hidden\)|[\d.]{1,3}(?:[ \t]+[\d.]{1,3})*|\d{1,3}(?:[ ,;]+\w+=\S+)+|<set to the key [^<>]*>(?:[ \t]+Optional:[ \t]+\w+)?|[\d.]{1,6} ?(?:ns|us|ms|s|KiB|MiB|GiB|bytes|%)|\d{1,6}\.\d{1,6}|\$\{\{?[ ]?[\w.]+[ ]?\}\}?|\[left out: [a-z ]+\]|"\[left out: [a-z ]+\]")$|` +
		`^/(?:etc|var|root|home|run|opt|usr|tmp|mnt|proc|dev|sys)/[\w./-]*$`)
	workingDir = pattern(`^/[\w./@:+~-]*$`)
	// prose are what sentences about a secret go on with.
	prose = pattern(`^[=:]|^\[left out: [a-z ]+\](?:[ ,.;]|$)|^(?i:not|no|missing|required|needed|set|unset|wrong|invalid|hidden|empty|expired|given|optional|too|shorter|longer|in|at|of|on|read|a|an|the|held|passed|taken|refused|tokens?|auth\w*|realm\W.*|used|by|with|for|from)(?:[ ,.;:]|$)`)
	// pairName and pairValue are the two members of a pair of a name and a value.
	pairName   = pattern(`(?i)\b(?:variable[ \t]+"|(?:name|key|variable|var|field|header|option|param|parameter|property|setting|type|id)\\*["']?[ \t]*[:=>][ \t]*\\*["']?)([\w.:/ -]{1,80}?)\\*["']?[ \t\r]*(?:[,<}/]|["'][ \t]|["']?>|[ \t]\w+[:=]|[ \t]\{|$)`)
	isPairName = pattern(`^(?i:name|key|variable|var|field|header|option|param|parameter|property|setting|type|id)$`)
	isVariable = pattern(`^[A-Za-z_]\w*$`)
	pairValue  = pattern(`^(?i:value|values|val|content|default|string|data|text)$`)
	ofSecret   = pattern(`(?m)^[ \t]*["']?kind["']?:[ \t]*["']?Secret["']?,?[ \t\r]*$`)
	keyBegin   = pattern(`-{4,5} ?BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?[- ]{4,6}|-----BEGIN OpenVPN Static key V1-----|PuTTY-User-Key-File-\d`)
	keyEnd     = pattern(`-{4,5} ?END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?[- ]{4,6}|-----END OpenVPN Static key V1-----|Private-MAC:.*`)
	keyBody    = pattern(`[A-Za-z0-9+/]{16,}={0,2}`)
	single     = pattern(`^\\*["']|^[^\s:=]+$|^[^\s:]+[^\s:=]=*$`)
	keyLine    = pattern(`^[\w.$-]+[ \t]*[:=]`)
	port       = pattern(`^\d{1,5}(?:[/?#,;"'<>)\]}]|$)`) // after a host
	dataOf     = pattern(`^[ \t]*["']?(?:data|stringData)["']?:[ \t]*`)
	quotes     = pattern("^\\\\*(?:\"\"\"|'''|\"|'|`)")
)

// Names of rules that are no pattern of a line.
const tokenRule, keyRule = "token", "private key"

//go:embed rules.txt
var table string

// Rules are those of rules.txt, in the order in which they are tried. A block is a rule: its
// name, what it wants to be found in brackets, and what it removes; then its forms, with the words
// of which a line has one, and the pattern. {program} is what stands before a program's name.
var Rules = sync.OnceValue(func() (list []*Rule) {
	for block := range strings.SplitSeq(strings.TrimSpace(table), "\n\n") {
		lines := strings.Split(block, "\n")
		name, rest, _ := strings.Cut(lines[0], " [")
		flags, what, _ := strings.Cut(rest, "] ")
		has := func(flag string) bool { return slices.Contains(strings.Fields(flags), flag) }
		r := &Rule{Name: strings.ReplaceAll(name, "_", " "), What: what, whole: has("whole"), named: has("named"), pair: has("pair")}
		if has("prose") {
			r.not = prose()
		} else if has("port") {
			r.not = port()
		}
		for _, line := range lines[1:] {
			fields := strings.Split(line, "\t")
			f := form{found: regexp.MustCompile(strings.ReplaceAll(fields[2], "{program}", `(?:^|[\s/"'(;|&=])`))}
			if r.named {
				f.before, f.after = regexp.MustCompile(fields[1]), f.found
			} else {
				f.hints = bytes.Split([]byte(fields[1]), []byte(","))
			}
			r.forms = append(r.forms, f)
		}
		list = append(list, r)
	}
	return list
})

// hintsOfNames are in each name that secretName knows.
func hintsOfNames() []string {
	list := strings.Fields("pass pwd secret token credential authorization cookie bearer jwt sess community kennwort psk pw auth cred totp keydata key-data key_data")
	for of := range strings.SplitSeq(keysOf, "|") {
		for _, between := range []string{"", "_", "-", ".", " "} {
			list = append(list, of+between+"key")
		}
	}
	return list
}

// plain is a name in lower case, without what separates its words.
func plain(name []byte) []byte {
	return bytes.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		}
		return -1
	}, name)
}

// IsName reports whether a name, which may have several words, is that of a secret.
func IsName(name []byte) bool {
	last := name[bytes.LastIndexByte(name, ' ')+1:]
	if sourceFile().Match(last) || len(name) > 200 {
		return false
	}
	p := plain(last)
	return !otherName().Match(p) && (secretName().Match(p) || secretKey().Match(plain(name)))
}
