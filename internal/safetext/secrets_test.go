package safetext

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
)

const key = `sk-Proj_7f3Kq"9\zL<m2&x+WvT/4=0123abcdEFGH`

func TestRedactForms(t *testing.T) {
	secrets := NewSecrets(key)
	quoted, err := json.Marshal(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, form := range map[string]string{
		"as it is":             key,
		"Go string":            strconv.Quote(key),
		"Go string twice":      strconv.Quote(strconv.Quote(key)),
		"ASCII Go string":      strconv.QuoteToASCII(key),
		"JSON string":          string(quoted),
		"query":                url.QueryEscape(key),
		"path":                 url.PathEscape(key),
		"HTML":                 html.EscapeString(key),
		"upper case":           strings.ToUpper(key),
		"lower case":           strings.ToLower(key),
		"line break":           key[:11] + "\n" + key[11:],
		"escaped line break":   key[:11] + `\n` + key[11:],
		"zero-width space":     key[:20] + "\u200b" + key[20:],
		"escaped zero width":   key[:20] + `\u200b` + key[20:],
		"every second a space": strings.Join(strings.Split(key, ""), " "),
		"hexadecimal":          hex.EncodeToString([]byte(key)),
		"base64":               base64.StdEncoding.EncodeToString([]byte(key)),
		"base64 for URLs":      base64.RawURLEncoding.EncodeToString([]byte(key)),
		"base64 after a name":  base64.StdEncoding.EncodeToString([]byte("me:" + key + ":tail")),
		"base64 after 1 byte":  base64.StdEncoding.EncodeToString([]byte(":" + key)),
		"base64 after 2 bytes": base64.StdEncoding.EncodeToString([]byte("u:" + key + "!")),
	} {
		t.Run(name, func(t *testing.T) {
			got := secrets.Redact("the server said: " + form + ", and went")
			if left := leftOf(key, got); left != "" {
				t.Errorf("%q is left in %q", left, got)
			}
			if !strings.HasPrefix(got, "the server said: ") || !strings.HasSuffix(got, ", and went") {
				t.Errorf("more than the secret is gone: %q", got)
			}
			if !secrets.In(form) {
				t.Error("the secret is not found")
			}
		})
	}
}

// hardKeys hold what decoding changes, and characters outside ASCII.
var hardKeys = []string{key, `sk-%41bc\u0041d&amp;e%2541f&lt;x0+9`, "pässwörd-ключ-鍵鍵鍵-🔑🔑-9", "horse battery+staple 7"}

// Each form of the package comment hides no key, whatever it is made of.
func TestRedactEncoded(t *testing.T) {
	numbers := func(format, separator string) func(string) string {
		return func(s string) string {
			var all []string
			for _, b := range []byte(s) {
				all = append(all, fmt.Sprintf(format, b))
			}
			return strings.Join(all, separator)
		}
	}
	inJSON := func(s string) string {
		quoted, _ := json.Marshal(s)
		return string(quoted)
	}
	forms := map[string]func(string) string{
		"plain": func(s string) string { return s },
		"query": url.QueryEscape, "path": url.PathEscape, "HTML": html.EscapeString, "JSON": inJSON, "Go": strconv.QuoteToASCII,
		"JSON outside ASCII": func(s string) string {
			var b strings.Builder
			for _, u := range utf16.Encode([]rune(s)) {
				fmt.Fprintf(&b, `\u%04x`, u)
			}
			return b.String()
		},
		"every byte in a URL": func(s string) string { return "%" + numbers("%02x", "%")(s) },
		"hex":                 func(s string) string { return hex.EncodeToString([]byte(s)) },
		"hex with colons":     numbers("%02x", ":"), "hex with dashes": numbers("%02X", "-"), "hex with spaces": numbers("%02x", " "),
		"hex of Go": func(s string) string { return fmt.Sprintf("%#v", []byte(s)) }, "bytes of C": numbers("0x%02X", ","),
		"escapes of C": func(s string) string { return `\x` + numbers("%02x", `\x`)(s) },
		"bytes of Go":  func(s string) string { return fmt.Sprint([]byte(s)) }, "bytes of Python": numbers("%d", ", "),
		"bytes in lines": numbers("%d", ",\n      "),
	}
	for _, secret := range hardKeys {
		secrets := NewSecrets("another-secret-1", secret)
		for inner, first := range forms {
			for outer, second := range forms {
				switch outer {
				case "plain", "query", "path", "HTML", "JSON", "Go":
				default:
					continue // no list of a list
				}
				form := second(first(secret))
				for _, s := range []*Secrets{secrets, secrets.Indexed()} {
					got := s.Redact("the server said <" + form + "> and went")
					rest, ok := strings.CutPrefix(got, "the server said <")
					rest, ends := strings.CutSuffix(rest, "> and went")
					if rest = strings.Replace(rest, Placeholder, "", 1); !ok || !ends || len(rest) > len(second(`[]byte{0x}`)) {
						t.Errorf("%q, %s in %s: %q became %q", secret, inner, outer, form, got)
					}
				}
			}
		}
	}
}

// Numbers that are no secret stay, also those of a list.
func TestRedactLeavesNumbers(t *testing.T) {
	secrets := NewSecrets(hardKeys...)
	for _, text := range []string{
		"[1 2 3 4 5 6 7 8 9 10 11 12]", "dial tcp 10.0.0.1:8000 at 2026-11-23 16:46:14.123", "00:1a:2b:3c:4d:5e", "50% of [104 101 108 108 111 32 119]",
	} {
		if got := secrets.Redact(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// leftOf returns a part of a secret that a text still holds: any eight bytes
// of it in a row, or of its usual encodings, quotes and backslashes not counted.
func leftOf(secret, text string) string {
	text = strings.ToLower(text)
	for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret)), hex.EncodeToString([]byte(secret))} {
		for i := 0; i+minPart <= len(form); i++ {
			end := i + minPart
			for end < len(form) && end-i-strings.Count(form[i:end], `"`)-strings.Count(form[i:end], `\`) < minPart {
				end++
			}
			part := strings.ToLower(form[i:end])
			if end-i > minPart && end == len(form) {
				continue
			}
			if strings.Contains(text, part) && strings.ContainsFunc(part, isNoLetter) {
				return part
			}
		}
	}
	return ""
}

func TestRedactCutAnywhere(t *testing.T) {
	secrets := NewSecrets(key)
	for n := minCut; n <= len(key); n++ {
		for _, mark := range []string{"", "...", `"`, `..."`, "\u2026"} {
			got := secrets.Redact("it begins " + key[:n] + mark)
			if want := "it begins " + Placeholder; !strings.HasPrefix(got, want) {
				t.Fatalf("cut after %d bytes: %q", n, got)
			}
		}
	}
	for n := minPart; n < len(key); n++ {
		got := secrets.Redact("type " + key[:n] + ": " + key[n:] + " (hint)")
		if strings.Contains(strings.ToLower(got), strings.ToLower(key[:minPart])) {
			t.Fatalf("split after %d bytes: %q", n, got)
		}
	}
}

func TestRedactLongestFirst(t *testing.T) {
	short, long := "abc-123-def", "prefix-abc-123-def-suffix-456"
	for _, order := range [][]string{{short, long}, {long, short}} {
		if got := NewSecrets(order...).Redact("key " + long + "!"); got != "key "+Placeholder+"!" {
			t.Errorf("%q: %q", order, got)
		}
	}
}

func TestRedactLeavesWords(t *testing.T) {
	secrets := NewSecrets("sk-live-9f8e7d6c5b4a", "production-gateway-key-1", "short")
	for _, text := range []string{
		"", "a", "connection refused", "dial tcp 10.0.0.1:8000: connect: connection refused",
		"the gateway of the key", "short", `status 401: {"error":"invalid key"}`, "日本語のテキスト",
	} {
		if got := secrets.Redact(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	var none *Secrets
	if got := none.Redact(key); got != key || none.In(key) || len(none.Values()) != 0 {
		t.Errorf("no secrets: %q", got)
	}
}

func TestInURL(t *testing.T) {
	secrets := NewSecrets("gateway-prod-2024", "inference", "sk-proj-0123456789abcdefghijkl").Indexed()
	for text, want := range map[string]bool{
		"http://gateway-prod.example/2024": false, "http://inference.example": false, "http://h/sk-proj-0123456789a": false, "http://h/sk-proj-0123456789abcdefX": true, "http://h/gateway-prod-2024/v1": true, "http://h/?k=gateway%2Dprod-2024": true,
	} {
		if got := secrets.InURL(text); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}

func TestLine(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"two\r\nlines\x00 and\x1b[31m red", 100, "two lines and [31m red"},
		{"a\u009bb\u202ec\u200bd", 100, "a b c d"},
		{"bad \xff byte", 100, "bad \uFFFD byte"},
		{"\n\t ", 100, ""},
		{strings.Repeat("é", 10), 20, strings.Repeat("é", 10)},
		{strings.Repeat("é", 10), 19, strings.Repeat("é", 8) + "..."},
		{strings.Repeat("x", 1<<16), 8, "xxxxx..."},
	} {
		if got := Line(c.in, c.limit); got != c.want {
			t.Errorf("Line(%.40q, %d) = %q, want %q", c.in, c.limit, got, c.want)
		}
	}
}

// FuzzRedact composes cuts, quotes, escapes and splits of a text with a secret
// in it: no eight characters in a row of the secret may be readable afterwards.
func FuzzRedact(f *testing.F) {
	f.Add(uint64(1), "status 401: invalid key ", ": try again")
	f.Add(uint64(99), `{"error":"`, `"}`)
	f.Fuzz(func(t *testing.T, seed uint64, before, after string) {
		random := rand.New(rand.NewPCG(seed, 1))
		secret := randomSecret(random)
		secrets := NewSecrets(secret)
		// The text around the secret must not complete it by chance.
		if secrets.In(before) || secrets.In(after) || strings.HasSuffix(before, `\`) || strings.HasSuffix(before, "%") {
			return
		}
		form := secret
		for range random.IntN(4) {
			form = spoil(random, form)
		}
		text := before + form + after
		got := secrets.Redact(text)
		if indexed := NewSecrets("another-secret-1", secret, "and-one-more-2").Indexed().Redact(text); indexed != got {
			t.Errorf("indexed: %q, else %q", indexed, got)
		}
		for _, again := range []string{got, Line(got, 1<<20), strconv.Quote(got)} {
			if left := leftOf(secret, again); left != "" {
				t.Errorf("secret %q as %q: %q is left in %q", secret, form, left, again)
			}
		}
	})
}

func randomSecret(random *rand.Rand) string {
	const letters = "ABCDEFGHabcdefgh0123456789-_.=+/\"\\<&%ux;"
	b := make([]byte, 16+random.IntN(60))
	for i := range b {
		b[i] = letters[random.IntN(len(letters))]
	}
	return "k" + string(b) + "9"
}

// spoil does to a text what servers, libraries and logs do.
func spoil(random *rand.Rand, s string) string {
	at := random.IntN(len(s) + 1)
	switch random.IntN(12) {
	case 0:
		return strconv.Quote(s)
	case 1:
		return s[:at] + "\n" + s[at:]
	case 2:
		return s[:at] + "\u200b" + s[at:]
	case 3:
		return s[:max(at, min(len(s), minPart))]
	case 4:
		quoted, _ := json.Marshal(s)
		return string(quoted)
	case 5:
		return fmt.Sprintf("%+q", s)
	case 6:
		return url.QueryEscape(s)
	case 7:
		return url.QueryEscape(url.QueryEscape(s))
	case 8:
		return html.EscapeString(s)
	case 9:
		return fmt.Sprint([]byte(s))
	case 10:
		return strings.ReplaceAll(fmt.Sprintf("% x", s), " ", ":")
	}
	return strings.ToUpper(s)
}

func BenchmarkRedact(b *testing.B) {
	b.Run("one", func(b *testing.B) { benchmarkRedact(b, NewSecrets(key)) })
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf("sk-%d-%064x", i, i*i*i))
	}
	b.Run("of 1000", func(b *testing.B) { benchmarkRedact(b, NewSecrets(many...).Indexed()) })
}

func benchmarkRedact(b *testing.B, secrets *Secrets) {
	text := strings.Repeat("dial tcp 10.0.0.1:8000: connect: connection refused; ", 8)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		secrets.Redact(text)
	}
}

func TestInHeader(t *testing.T) {
	f := func(value string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, InHeader(value)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", value, diff)
		}
	}
	f("Bearer sk-abcdefgh", "sk-abcdefgh")
	f("sk-abcdefgh", "sk-abcdefgh")
	f("Basic dXNlcjpodW50ZXIycGFzcw==", "dXNlcjpodW50ZXIycGFzcw==", "hunter2pass")
	f("id=1; session=0123456789abcdef", "session=0123456789abcdef", "1", "0123456789abcdef")
}

func TestNames(t *testing.T) {
	n := NewNames(NewSecrets("sk-0123456789"), 16)
	for range 2 {
		for in, want := range map[string]string{
			"": "", "llama": "llama", "a\u202eb\n": "a b", "m sk-0123456789": "m <secret>", "0123456789abcdefg": "<secret>abcdefg",
			"a-very-long-name-of-a-model": "a-very-long-n...",
		} {
			if got := n.Clean(in); got != want {
				t.Errorf("%q: %q, want %q", in, got, want)
			}
		}
	}
	for i := range 10 * maxNames {
		n.Clean(fmt.Sprint("model-", i))
	}
	if len(n.seen) > maxNames {
		t.Errorf("%d names are remembered", len(n.seen))
	}
}

// Of what a request sends, only the values of headers that the settings add are
// secrets, and of those none that is public.
func TestSentHeaders(t *testing.T) {
	s := NewSentHeaders(NewSecrets("configured"), func(name, value string) bool { return name == "X-Tenant" && value == "tenant-42" })
	s.Add("User-Agent", []string{"some-agent"})
	s.Add(":Path", []string{"/some/path"})
	s.Add("X-Tenant", []string{"tenant-42", "tenant-43"})
	s.Add("Authorization", []string{"Bearer abcdef"})
	if diff := cmp.Diff([]string{"abcdef", "configured", "tenant-43"}, slices.Sorted(slices.Values(s.Secrets().Values()))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
