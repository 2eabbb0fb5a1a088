package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

// spelled makes a secret of any bytes, of letters that a context allows.
func spelled(seed []byte, letters string) string {
	secret := []byte("Zq")
	for _, b := range seed[:min(len(seed), 40)] {
		secret = append(secret, letters[int(b)%len(letters)])
	}
	return string(secret) + "7"
}

const (
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+."
	signs   = letters + "/=!*~^-@#%,;:?&$(){}[]'`\\"
)

// placed puts a secret where the corpus has one; false if nothing but certain forms are secrets there.
func (s sample) placed(seed []byte) (text, secret string, ok bool) {
	in := func(secret string) string { return secret }
	switch s.kind {
	case "form", "own", "prose", "pgpass":
		return "", "", false
	case "json":
		secret = spelled(seed, letters)
		if !strings.Contains(s.title, "in a string") && !strings.Contains(s.title, "over several") && utf8.Valid(seed) && len(seed) > 5 {
			secret = "Zq7" + string(seed) // whatever it is
			in = func(secret string) string { return strings.Trim(string(quoted(secret)), `"`) }
			if strings.HasSuffix(secret, `"`) || strings.HasPrefix(secret, `"`) {
				return "", "", false
			}
		}
		if strings.Contains(s.title, "number") || strings.Contains(s.title, "key in a string") || strings.Contains(s.title, "key over") {
			return "", "", false
		}
	case "yaml", "ini", "env", "http", "properties", "slurm":
		if !strings.Contains(s.title, "key in a block") && !strings.Contains(s.title, "quotes") && !strings.Contains(s.title, "unit") {
			secret = spelled(seed, signs)
			break
		}
		fallthrough
	default:
		secret = spelled(seed, letters)
	}
	text = s.text
	for _, gone := range s.gone {
		text = strings.ReplaceAll(text, gone, in(secret))
	}
	return text, secret, len(secret) > 5 && !strings.Contains(s.title, "a token alone") && !strings.Contains(s.title, "signature") && !strings.Contains(s.title, "key over") && !strings.Contains(s.title, "key in a")
}

// A secret where the corpus has one never stays, nor does the ring's own, however it is written;
// JSON stays JSON; redacted twice is redacted once.
func FuzzText(f *testing.F) {
	documents := samples(f)
	for i, s := range documents {
		f.Add(uint16(i), []byte("hunter2-fuzz"), []byte(s.text), uint8(i))
	}
	for _, text := range harmlessTexts(f) {
		for i, line := range strings.Split(text, "\n") {
			if i%8 == 0 {
				f.Add(uint16(i), []byte("correct horse"), []byte(line), uint8(i))
			}
		}
	}
	hints := New(nil)
	f.Fuzz(func(t *testing.T, which uint16, seed, text []byte, form uint8) {
		s := documents[int(which)%len(documents)]
		if in, secret, ok := s.placed(seed); ok {
			clean, _ := hints.Text([]byte(in))
			if bytes.Contains(bytes.ToLower(clean), bytes.ToLower([]byte(secret))) {
				t.Errorf("%s: %s: %q is left:\n%s\nof\n%s", s.kind, s.title, secret, clean, in)
			}
			holds(t, hints, []byte(in), clean)
		}
		if !utf8.Valid(text) {
			return
		}
		clean, _ := hints.Text(text)
		holds(t, hints, text, clean)

		own := spelled(append(seed, "filled up to be long enough"...), letters+"/=!*~^-@#%,;:?&")
		wrote := writtenAs(own, form)
		r := New([][]byte{[]byte(own)})
		at := len(text) / 2
		whole := append(append(bytes.Clone(text[:at]), wrote...), text[at:]...)
		if utf8.Valid(whole) {
			clean, _ := r.Text(whole)
			if bytes.Contains(bytes.ToLower(clean), bytes.ToLower(wrote)) {
				t.Errorf("the ring's %q is left as %q:\n%s\nof\n%s", own, wrote, clean, whole)
			}
			holds(t, r, whole, clean)
		}
	})
}

// writtenAs is a form of a secret; for base64, the digits that it determines whatever is around.
func writtenAs(secret string, form uint8) []byte {
	encoding := []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding}[form/16%4]
	switch form % 8 {
	case 0:
		return []byte(secret)
	case 1:
		return []byte(strings.ToUpper(secret))
	case 2:
		return []byte(hex.EncodeToString([]byte(secret)))
	case 3:
		return []byte(url.QueryEscape(secret))
	case 4:
		return bytes.Trim(quoted(secret), `"`)
	default:
		before := int(form%8) - 5
		digits := encoding.EncodeToString([]byte("xx"[:before] + secret + "yy"))
		return []byte(digits[(before*8+5)/6 : (before+len(secret))*8/6])
	}
}

// holds checks what holds for each text.
func holds(t *testing.T, r *Redactor, in, clean []byte) {
	t.Helper()
	if json.Valid(in) && !json.Valid(clean) {
		t.Errorf("no JSON any more:\n%q\nof\n%q", clean, in)
	}
	if jsonThroughout(in) && !jsonThroughout(clean) {
		t.Errorf("no JSON lines any more:\n%q\nof\n%q", clean, in)
	}
	if again, _ := r.Text(clean); !bytes.Equal(again, clean) {
		t.Errorf("redacted twice:\n%q\nonce:\n%q\nof\n%q", again, clean, in)
	}
}
