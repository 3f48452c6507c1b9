package safetext

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"hash/maphash"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Placeholder is what a secret is replaced by, as in a printed configuration.
const Placeholder = "<secret>"

const (
	// minSecret is the shortest secret that is looked for: shorter ones would blank out ordinary words.
	minSecret = 6
	// minPart is how many characters in a row of a secret are taken for it: its beginning, its end, or no word.
	minPart = 8
	// minWord is minPart for what has letters only.
	minWord = 12
	// minCut is how much of a secret is taken for it at the very end of a text, where it may have been cut.
	minCut = 4
	// minInURL is how much of a secret is taken for it in a URL.
	minInURL = 20
)

// Secrets are texts that must not be shown, in any of the forms that the comment of
// the package lists. A nil Secrets holds none. It is immutable.
type Secrets struct {
	values     []string
	sieve      *sieve      // nil: every secret is looked for in every text
	configured *Configured // is looked for too
}

// NewSecrets returns the set of the given secrets, those of fewer than six characters left out.
func NewSecrets(values ...string) *Secrets { return new(Secrets).With(values...) }

// With returns a set with more secrets; s itself where it has them all.
func (s *Secrets) With(values ...string) *Secrets {
	all := slices.Clip(s.Values())
	for _, v := range values {
		if v = strings.TrimSpace(v); len(v) >= minSecret && !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	switch {
	case s == nil:
		return &Secrets{values: all}
	case len(all) == len(s.values):
		return s
	}
	return &Secrets{values: all, configured: s.configured}
}

// Values returns the secrets; the caller must not change them.
func (s *Secrets) Values() []string {
	if s == nil {
		return nil
	}
	return s.values
}

// In reports whether a text holds a secret, or a part of one.
func (s *Secrets) In(text string) bool { return len(s.find(text)) > 0 }

// InURL reports whether a text holds so much of a secret that no URL has it by chance:
// the whole of one of at least twelve characters, or twenty in a row.
func (s *Secrets) InURL(text string) bool {
	return slices.ContainsFunc(s.find(text), func(f span) bool { return f.long })
}

// Redact returns a text with the secrets in it replaced by Placeholder.
func (s *Secrets) Redact(text string) string {
	found := s.find(text)
	if len(found) == 0 {
		return text
	}
	var b strings.Builder
	at := 0
	for _, f := range found {
		b.WriteString(text[at:f.begin])
		b.WriteString(Placeholder)
		at = f.end
	}
	b.WriteString(text[at:])
	return b.String()
}

// find returns where a text holds secrets, in order and without overlaps.
func (s *Secrets) find(text string) []span {
	if s == nil || len(text) < minCut {
		return nil
	}
	l := decoded(layer{bytes: text})
	return joined(append(s.spans(l), s.configured.find(l)...))
}

// spans returns where a decoded text holds one of the values, in no order.
func (s *Secrets) spans(text layer) []span {
	values := s.Values()
	if len(values) == 0 {
		return nil
	}
	var found []span
	for _, l := range append(text.lists(), text) {
		t, suspects := plainOf(l), values
		if s.sieve != nil {
			suspects = s.sieve.suspects(t.runes, values)
		}
		if len(suspects) > 0 {
			found = append(found, newIndex(suspects).find(t)...)
		}
	}
	return found
}

// span is a part of a text, in bytes.
type span struct {
	begin, end int
	long       bool // as InURL means it
}

// index finds secrets in texts by the parts of them that give them away.
type index struct {
	forms  [][]rune         // each secret in each of its forms, plain
	parts  map[string]place // parts of minPart or minWord characters, and short forms whole
	length []int            // the lengths of the keys of parts
}

type place struct{ form, offset int }

func newIndex(secrets []string) *index {
	x := &index{parts: map[string]place{}}
	for _, s := range secrets {
		for _, form := range formsOf(s) {
			x.add(plainOf(layer{bytes: form}).runes)
		}
	}
	for part := range x.parts {
		if n := len([]rune(part)); !slices.Contains(x.length, n) {
			x.length = append(x.length, n)
		}
	}
	return x
}

// add adds a form of a secret with the parts that give it away.
func (x *index) add(form []rune) {
	if len(form) < minSecret || slices.ContainsFunc(x.forms, func(f []rune) bool { return slices.Equal(f, form) }) {
		return
	}
	x.forms = append(x.forms, form)
	note := func(offset, length int) {
		part := string(form[offset : offset+length])
		if _, ok := x.parts[part]; !ok {
			x.parts[part] = place{len(x.forms) - 1, offset}
		}
	}
	if len(form) < minPart {
		note(0, len(form))
		return
	}
	last := len(form) - minPart
	for i := range last + 1 {
		if i == 0 || i == last || slices.ContainsFunc(form[i:i+minPart], isNoLetter) {
			note(i, minPart)
		}
		if i+minWord <= len(form) {
			note(i, minWord)
		}
	}
}

func isNoLetter(r rune) bool { return r < 'a' || r > 'z' }

// find returns where a text holds secrets, in no order.
func (x *index) find(t plain) []span {
	var found []span
	for i := range t.runes {
		for _, n := range x.length {
			if i+n > len(t.runes) {
				continue
			}
			if p, ok := x.parts[string(t.runes[i:i+n])]; ok {
				begin, end := x.extend(t.runes, i, i+n, p)
				f := t.span(begin, end)
				f.long = end-begin >= minInURL || end-begin >= minWord && end-begin == len(x.forms[p.form])
				found = append(found, f)
			}
		}
	}
	if begin, end := x.cut(t.runes); begin < end {
		found = append(found, t.span(begin, end))
	}
	return found
}

// extend returns how far a text goes on like the form that a part of it is of.
func (x *index) extend(text []rune, begin, end int, p place) (int, int) {
	form := x.forms[p.form]
	right := p.offset + end - begin
	for left := p.offset; begin > 0 && left > 0 && text[begin-1] == form[left-1]; left-- {
		begin--
	}
	for ; end < len(text) && right < len(form) && text[end] == form[right]; right++ {
		end++
	}
	return begin, end
}

// cut returns the beginning of a secret at the end of a text that may have been cut there.
func (x *index) cut(text []rune) (begin, end int) {
	end = len(text)
	for end > 0 && (text[end-1] == '.' || text[end-1] == '\u2026') { // as a mark of the cut
		end--
	}
	begin = end
	for _, form := range x.forms {
		for n := min(len(form), end); n >= minCut && end-n < begin; n-- {
			if slices.Equal(text[end-n:end], form[:n]) {
				begin = end - n
			}
		}
	}
	return begin, end
}

// joined sorts spans and joins those that overlap or touch.
func joined(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.begin, b.begin) })
	var out []span
	for _, s := range spans {
		if n := len(out); n > 0 && s.begin <= out[n-1].end {
			out[n-1].end, out[n-1].long = max(out[n-1].end, s.end), out[n-1].long || s.long
			continue
		}
		out = append(out, s)
	}
	return out
}

// formsOf returns a secret as it is and encoded.
func formsOf(s string) []string {
	forms := []string{s, hex.EncodeToString([]byte(s))}
	// What comes before the secret decides how its bits fall on the characters.
	for before, affected := range [...]int{0, 2, 3} {
		raw := append(make([]byte, before), s...)
		for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			form := alphabet.EncodeToString(raw)[affected:]
			if len(raw)%3 != 0 { // the last character has bits of what comes after
				form = form[:len(form)-1]
			}
			forms = append(forms, form)
		}
	}
	return forms
}

// gram is how many characters in a row a sieve looks at: as many as the shortest part that is found.
const gram = minSecret

// sieve names the few of many secrets that may be in a text. One of 40 characters takes 3 to 4 kB.
type sieve struct {
	seed maphash.Seed
	// entries are sorted: the upper half of each is the hash of some characters
	// in a row of a form of a secret, the lower half the number of the secret.
	entries []uint64
}

// Indexed returns the same set prepared for many secrets and texts, as of a configuration and a log.
func (s *Secrets) Indexed() *Secrets {
	all := &sieve{seed: maphash.MakeSeed()}
	for number, value := range s.Values() {
		for _, form := range formsOf(value) {
			runes := plainOf(layer{bytes: form}).runes
			for i := 0; i+gram <= len(runes); i++ {
				all.entries = append(all.entries, all.entry(runes[i:i+gram], number))
			}
			if len(runes) >= minCut {
				all.entries = append(all.entries, all.entry(runes[:minCut], number))
			}
		}
	}
	slices.Sort(all.entries)
	all.entries = slices.Clip(slices.Compact(all.entries))
	return &Secrets{values: s.Values(), sieve: all}
}

func (s *sieve) entry(runes []rune, number int) uint64 {
	return maphash.String(s.seed, string(runes))<<32 | uint64(uint32(number))
}

func (s *sieve) suspects(text []rune, values []string) []string {
	var found []string
	look := func(runes []rune) {
		first := s.entry(runes, 0)
		i, _ := slices.BinarySearch(s.entries, first)
		for ; i < len(s.entries) && s.entries[i]>>32 == first>>32; i++ {
			if v := values[uint32(s.entries[i])]; !slices.Contains(found, v) {
				found = append(found, v)
			}
		}
	}
	for i := 0; i+gram <= len(text); i++ {
		look(text[i : i+gram])
	}
	// A secret may be cut at the end, after its first characters.
	for end := len(text); end >= minCut && end > len(text)-gram-len(ellipsis); end-- {
		look(text[end-minCut : end])
	}
	return found
}

// InHeader returns the parts of the value of a header that must not be repeated: "abcdef" of
// "Bearer abcdef", the password of "Basic ...", the values of the cookies "a=1; b=2".
func InHeader(value string) []string {
	scheme, rest, ok := strings.Cut(value, " ")
	if !ok { // no scheme before it
		rest = scheme
	}
	var secrets []string
	for part := range strings.FieldsSeq(rest) {
		secrets = append(secrets, strings.TrimRight(part, ";,"))
	}
	if plain, err := base64.StdEncoding.DecodeString(rest); ok && scheme == "Basic" && err == nil {
		_, password, _ := strings.Cut(string(plain), ":")
		secrets = append(secrets, password)
	}
	if cookies, err := http.ParseCookie(value); err == nil {
		for _, c := range cookies {
			secrets = append(secrets, c.Value)
		}
	}
	return secrets
}

// SentHeaders collects the secrets in the headers of a request. It is safe for concurrent use.
type SentHeaders struct {
	public func(name, value string) bool

	mu      sync.Mutex
	secrets *Secrets
}

// NewSentHeaders returns a SentHeaders with the secrets that are known before. public
// reports whether a value that the settings add is no secret.
func NewSentHeaders(known *Secrets, public func(name, value string) bool) *SentHeaders {
	return &SentHeaders{secrets: known, public: public}
}

// Add takes the values of a header that was sent. What a client sets itself is no
// secret; every other header comes from the settings and may be one.
func (s *SentHeaders) Add(name string, values []string) {
	switch strings.ToLower(name) {
	case "host", "user-agent", "accept", "accept-encoding", "content-type", "content-length",
		"connection", "transfer-encoding", "traceparent", ":authority", ":method", ":path", ":scheme":
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range values {
		if !s.public(name, v) {
			s.secrets = s.secrets.With(InHeader(v)...)
		}
	}
}

// Secrets returns the secrets known before and those sent so far.
func (s *SentHeaders) Secrets() *Secrets {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.secrets
}
