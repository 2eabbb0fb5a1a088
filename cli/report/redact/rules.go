package redact

import (
	"bytes"
	"regexp"
	"strings"
)

// form is a pattern, and words in lower case of which one is in whatever it matches.
type form struct{ hints, pattern string }

// Rule is a way to recognize a secret. Name stands in the marker that replaces the secret.
type Rule struct {
	Name, What string
	forms      []form
	// A match ends where the value begins. If whole is set, the match is the secret, except for
	// its group, which stays.
	whole bool
	// named rules want the name of a secret as their group; pair wants one beside the match.
	named, pair bool
	once        bool           // only the first match in a line counts
	not         *regexp.Regexp // values that are no secrets

	hints []string
	found *regexp.Regexp
}

// Names of what holds a secret, in lower case and without separators: anywhere in a name, at its
// end, and those that end in "key".
const (
	wordsWithin = `passw|passphrase|passcode|pwd|secret|token|credential|authorization|cookie|bearer|jwt|sess(?:ion)?id|community|kennwort|keydata|psk`
	wordsAtEnd  = `pass|pw|auth|creds?|totp|passin|passout`
	keysOf      = `api|access|private|auth|encryption|encrypt|signing|sign|shared|preshared|account|master|ssh|license|munge|cipher|decryption|session|storage|service|app|webhook|functions`
)

var (
	secretName = regexp.MustCompile(`(?:` + wordsWithin + `)|(?:` + wordsAtEnd + `|(?:` + keysOf + `)keys?)$`)
	secretKey  = regexp.MustCompile(`(?:` + keysOf + `)key$|passphrase$`)
	// otherName are names of something about a secret, of counts, and of words that contain such a name.
	otherName = regexp.MustCompile(`^no|(?:file|files|path|dir|folder|name|type|count|counts|length|len|size|bytes|url|uri|endpoint|policy|ttl|timeout|version|encryption|stdin|prompt|izer|persec|persecond|ref|keyref|required|enabled)$|` +
		`(?:max|min|num|total|input|output|new|sync|synced)(?:tokens|cookies)(?:sent|recv|failed)?$|syncookies|(?:by|com|sur|tres|over|multi|single|one|two|first|second|all|no)pass$`)
	sourceFile = regexp.MustCompile(`\.(?:go|c|h|cc|cpp|py|rs|js|ts|java|txt|log|so|conf|service|sh)$`)
	// harmless are values that tell no secret.
	harmless = regexp.MustCompile(`^(?i:true|false|yes|no|on|off|null|nil|none|<none>|<nil>|<unset>|unset|~|-|\{\}|\[\]|\*+|x{3,}|<?(?:hidden|redacted|masked|removed)>?|(?:(?:env|file|flag|default) \S+ +)?set \(hidden\)|[\d.]{1,3}(?:[ \t]+[\d.]+)*|\d{1,3}(?:[ ,;]+\w+=\S+)+|<set to the key [^<>]*>(?:[ \t]+Optional:[ \t]+\w+)?|[\d.]+ ?(?:ns|us|ms|s|KiB|MiB|GiB|bytes|%)|\d+\.\d+|\$\{\{?[ ]?[\w.]+[ ]?\}\}?|\[left out: [a-z ]+\]|"\[left out: [a-z ]+\]")$|` +
		`^/(?:etc|var|root|home|run|opt|usr|tmp|mnt|proc|dev|sys)/[\w./-]*$`)
	workingDir = regexp.MustCompile(`^/[\w./@:+~-]*$`)
	// prose are what sentences about a secret go on with.
	prose = regexp.MustCompile(`^[=:]|^(?i:not|no|missing|required|needed|set|unset|wrong|invalid|hidden|empty|expired|given|optional|too|shorter|longer|in|at|of|on|read|a|an|the|held|passed|taken|refused|tokens?|auth\w*|realm\W.*|used|by|with|for|from)\b`)
	// pairName and pairValue are the two members of a pair of a name and a value.
	pairName   = regexp.MustCompile(`(?i)\b(?:name|key|variable|var|field|header|option|param|parameter|property|setting|type|id)(?:\\*["']?[ \t]*[:=>][ \t]*\\*["']?|[ \t]+["'])([\w.:/ -]{1,80}?)\\*["']?[ \t\r]*(?:[,<}/]|["'][ \t]|["']?>|[ \t]\w+[:=]|[ \t]\{|$)`)
	isPairName = regexp.MustCompile(`^(?i:name|key|variable|var|field|header|option|param|parameter|property|setting|type|id)$`)
	pairValue  = regexp.MustCompile(`^(?i:value|values|val|content|default|string|data|text)$`)
	ofSecret   = regexp.MustCompile(`(?m)^[ \t]*["']?kind["']?:[ \t]*["']?Secret["']?,?[ \t\r]*$`)
	keyBegin   = regexp.MustCompile(`-{4,5} ?BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?[- ]{4,6}|-----BEGIN OpenVPN Static key V1-----|PuTTY-User-Key-File-\d`)
	keyEnd     = regexp.MustCompile(`-{4,5} ?END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?[- ]{4,6}|-----END OpenVPN Static key V1-----|Private-MAC:.*`)
	keyBody    = regexp.MustCompile(`[A-Za-z0-9+/]{16,}={0,2}`)
	single     = regexp.MustCompile(`^\\*["']|^[^\s:=]+$|^[^\s:]+[^\s:=]=*$`)
	keyLine    = regexp.MustCompile(`^[\w.$-]+[ \t]*[:=]`)
	indents    = regexp.MustCompile(`^[ \t]*(?:-[ \t]+)*`)
	quotes     = regexp.MustCompile("^\\\\*(?:\"\"\"|'''|\"|'|`)")
)

// Names of rules that are no pattern of a line.
const tokenRule, keyRule = "token", "private key"

// Parts of patterns: a name of one or two words, and what stands between it and its value.
const (
	nameOf   = `((?:[A-Za-z]+ )?[\w.$-]+)`
	secretIs = `\\*["'` + "`" + `]?(?:\[\w*\]|[ \t]?\([^()\n]{1,40}\)|[ \t](?:for|of|on)[ \t][^:=\n]{1,40})?\\*["']?\]?[ \t]*(?:[:=]+>?|[-=]>|[+?]=|%3[aAdD])[ \t]*`
	program  = `(?:^|[\s/"'(;|&=])`
)

// Rules are tried in this order; the first two are no patterns.
var Rules = []*Rule{
	{Name: tokenRule, What: "the ring's secret, in any case, or in base64, hexadecimal or escaped"},
	{Name: keyRule, What: "a private key of PEM, OpenSSH, PGP, PuTTY or OpenVPN"},
	{Name: "key", What: "a provider's key, a JSON web token, a credential of MUNGE, or the hash of a password", whole: true, forms: []form{
		{"eyj", `\beyJ[\w-]{8,}(?:\.[\w-]{8,})?(?:\.[\w-]*){1,3}`},
		{"akia asia abia acca", `\bA(?:KI|SI|BI|CC)A[0-9A-Z]{16}`},
		{"aiza", `\bAIza[\w-]{30,}`},
		{"ya29.", `\bya29\.[\w-]{10,}`},
		{"gocspx-", `\bGOCSPX-[\w-]{20,}`},
		{"sig=", `([?&]sig=)[\w%+/=-]{16,}`},
		{"gho_ ghp_ ghr_ ghs_ ghu_", `\bgh[oprsu]_\w{20,}`},
		{"github_pat_", `\bgithub_pat_\w{20,}`},
		{"gl", `\bgl[a-z]{2,5}-[\w.-]{16,}|\bgl(?:sa|c)_[\w+/=]{20,}`},
		{"xox xapp-", `\bx(?:ox[a-z]|app)-[\w-]{10,}`},
		{"hooks.slack.com", `(\bhooks\.slack\.com/)\w+/[\w/]+`},
		{"npm_", `\bnpm_\w{20,}`},
		{"hf_", `\bhf_\w{20,}`},
		{"sk-", `\bsk-[\w-]{20,}`},
		{"sk_ rk_", `\b[rs]k_(?:live|test)_\w{10,}`},
		{"sg.", `\bSG\.[\w-]{16,}\.[\w-]{16,}`},
		{"dop_v1_", `\bdop_v1_\w{20,}`},
		{"pypi-", `\bpypi-[\w-]{20,}`},
		{"dckr_pat_", `\bdckr_pat_[\w-]{20,}`},
		{"hvs. hvb.", `\bhv[sb]\.[\w-]{20,}`},
		{"dapi", `\bdapi[0-9a-f]{32}`},
		{"nvapi-", `\bnvapi-[\w-]{20,}`},
		{"nrak- pmak-", `\b(?:NR|PM)AK-[\w-]{20,}`},
		{"lin_api_", `\blin_api_\w{20,}`},
		{".atlasv1.", `\b\w{14}\.atlasv1\.[\w=-]{20,}`},
		{":aa", `\b\d{8,10}:AA[\w-]{30,}`},
		{"age-secret-key-1", `\b(?i:age-secret-key-1)\w{20,}`},
		{"munge:", `\bMUNGE:[\w+/=]{8,}:?`},
		{"ls0tls1crudjti", `\bLS0tLS1CRUdJTi[\w+/=]+`},
		{"$1$ $2a$ $2b$ $2y$ $5$ $6$ $7$ $y$ $gy$ $apr1$ $argon2", `\$(?:1|2[abxy]?|5|6|7|y|gy|apr1|argon2\w*)\$[\w./$=,+-]{8,}`},
		{":54 :6432: :*:", `^([\w.*-]+:(?:54\d\d|6432|\*):[\w.*-]+:[\w.*-]+:)(?:[^:\s\\]|\\.)+`}, // .pgpass
	}},
	{Name: "address", What: "the password in an address such as https://user:password@host", whole: true, not: regexp.MustCompile(`^\d{1,5}(?:[/?#,]|$)`), forms: []form{
		{"://", "(\\b[a-zA-Z][\\w+.-]*://[^\\s/:@\"'<>]*:)[^\\s\"'`<>]*@|(\\b[a-zA-Z][\\w+.-]*://)[^\\s/:@\"'<>]{20,}@"},
		{"thin:", `(\bthin:[^\s/@:]+/)[^\s"'<>]*@`},
	}},
	{Name: "pipe", What: "what a command line writes to sudo, chpasswd or passwd", whole: true, forms: []form{
		{"sudo passwd", `(` + program + `(?:echo|printf)[ \t]+)[^|\n]*\|[ \t]*(?:sudo|chpasswd|passwd)\b`},
		{"sudo passwd", `((?:sudo|chpasswd|passwd)\b[^|;\n]*<<<?)[^|;\n]*`},
	}},
	{Name: "bearer", What: "what follows Bearer, or Authorization: Basic", not: prose, forms: []form{
		{"bearer", `(?i:\bbearer)(?:[ \t]+|%20|:)`},
		{"basic", `(?i:authorization\W+basic)[ \t]+`},
	}},
	{Name: "sentence", What: "what a sentence says that a password is", not: prose, forms: []form{
		{"passw passphrase secret token", `\b(?i:password|passwd|passphrase|secret|token)[ \t]+(?:is|was)[ \t]*:?[ \t]+`},
	}},
	{Name: "command", What: "a password that a program takes by a short option, as sshpass -p does", forms: []form{
		{"sshpass", program + `sshpass\b[^|;&\n]*?\s-p[ \t=]*`},
		{"mysql mariadb", program + `(?:mysql|mariadb)[\w-]*\b[^|;\n]*?\s-p`},
		{"ipmi bmc-", program + `(?:ipmi[\w-]*|bmc-\w+)\b[^|;\n]*?\s-[Ppk][ \t]*`},
		{"racadm", program + `racadm\b[^|;\n]*?\s-p[ \t]*`},
		{"ldap", program + `ldap\w+\b[^|;\n]*?\s-w[ \t]*`},
		{"snmp", program + `snmp\w+\b[^|;\n]*?\s-[cAX][ \t]*`},
		{"redis-cli", program + `redis-cli\b[^|;\n]*?\s-a[ \t]*`},
		{"curl lftp", program + `(?:curl|lftp)\b[^|;\n]*?\s(?:-u|--user|--proxy-user)[ \t=]*`},
		{"smbclient rpcclient", program + `(?:smbclient|rpcclient)\b[^|;\n]*?\s(?:-U|--user)[ \t=]*`},
		{"mongo docker podman nerdctl helm az", program + `(?:mongo\w*|(?:docker|podman|nerdctl|helm|az)\b[^|;\n]*?\slogin)\b[^|;\n]*?\s-p[ \t=]*`},
		{"creds", `\s--(?:\w+-)?creds[ \t=]+`},
		{"htpasswd", program + `htpasswd\b[^|;\n]*?\s-\w*b\w*[ \t]+\S+[ \t]+\S+[ \t]+`},
		{"7z", program + `7z\w*\b[^|;\n]*?\s-p`},
		{"zip", program + `(?:un)?zip\b[^|;\n]*?\s-P[ \t]*`},
		{"rabbitmqctl", program + `rabbitmqctl\s+(?:add_user|change_password)[ \t]+\S+[ \t]+`},
		{"freerdp rdesktop", program + `(?:[xw]l?freerdp\b[^|;\n]*?\s/p:|rdesktop\b[^|;\n]*?\s-p[ \t]*)`},
	}},
	{Name: "directive", What: "what follows a name in .netrc, snmpd.conf, redis.conf or a switch's configuration", not: prose, once: true, forms: []form{
		{"passw passphrase requirepass masterauth secret", `^[ \t]*(?i:password|passwd|passphrase|secret|requirepass|masterauth)[ \t]+`},
		{"community createuser com2sec", `^[ \t]*(?i:(?:ro|rw|trap)community6?|createUser[ \t]+\S+|com2sec6?[ \t]+\S+[ \t]+\S+)[ \t]+`},
		{"snmp-server", `\b(?i:snmp-server[ \t]+(?:community|host[ \t]+\S+))[ \t]+`},
		{"passw secret", `\b(?i:login|user|username|machine|enable|neighbor|default)\b.*?[ \t](?i:password|passwd|secret)[ \t]+(?:[05-9][ \t]+)?`},
	}},
	{Name: "option", What: "the value of an option such as --password", named: true, forms: []form{
		{hintsOfNames, `(?:^|[\s"'=\[(,])--?([A-Za-z][\w-]*)["']?,?(?:[ \t]+|$)`},
	}},
	{Name: "name", What: "the value of a name such as password, secret, token, credential, cookie or api-key", named: true, forms: []form{
		{hintsOfNames, nameOf + secretIs},
		{hintsOfNames, `<(?:[\w.-]+:)?([\w.-]+)(?:\s[^<>\n]*)?>`},
	}},
	{Name: "column", What: "the value beside such a name in a table", named: true, once: true, forms: []form{
		{hintsOfNames, `^[\s|*#;"'>-]*` + nameOf + `["']?(?:[ \t]{2,}|\t|[ \t]*\|)[ \t]*`},
		{hintsOfNames, `^[ \t]*(?:set|setenv)[ \t]+(?:-\w+[ \t]+)?([\w.-]+)[ \t]+`},
	}},
	{Name: "pair", What: "the value of a pair such as name: DB_PASSWORD, value: VALUE", pair: true, forms: []form{
		{"val content default string data text", `\b(?i:values?|val|content|default|string|data|text)(?:\\*["']?[ \t]*[:=]|[^<>\n]*>)[ \t]*`},
		{"key= name= id=", `<[\w.:-]+[ \t][^<>\n]*[^<>/\n]>`},
	}},
}

// hintsOfNames are in each name that secretName knows.
var hintsOfNames = func() string {
	list := "pass pwd secret token credential authorization cookie bearer jwt sess community kennwort psk pw auth cred totp keydata key-data key_data"
	for _, of := range strings.Split(keysOf, "|") {
		list += " " + of + "key " + of + "_key " + of + "-key " + of + ".key " + of + "\x00key"
	}
	return list
}()

func init() {
	for _, r := range Rules {
		var patterns []string
		for _, f := range r.forms {
			patterns = append(patterns, f.pattern)
			for _, hint := range strings.Fields(f.hints) {
				r.hints = append(r.hints, strings.ReplaceAll(hint, "\x00", " "))
			}
		}
		if patterns != nil {
			r.found = regexp.MustCompile(strings.Join(patterns, "|"))
		}
	}
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

// isName reports whether a name, which may have several words, is that of a secret.
func isName(name []byte) bool {
	last := name[bytes.LastIndexByte(name, ' ')+1:]
	if sourceFile.Match(last) || len(name) > 200 {
		return false
	}
	p := plain(last)
	return !otherName.Match(p) && (secretName.Match(p) || secretKey.Match(plain(name)))
}
