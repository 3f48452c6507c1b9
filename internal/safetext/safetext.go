// Package safetext makes texts that others wrote safe to show in logs, labels, pages and terminals: without the secrets
// that a server may quote, on one line, printable, and bounded. Secrets are replaced before anything is cut or quoted,
// since half a secret is still one.
//
// A secret of at least six characters is found in these forms, as servers, libraries and logs print them:
//
//   - whole, or a part of it: eight characters in a row (twelve where they are
//     letters alone), its beginning or its end; four characters of its beginning
//     where the text ends
//   - in upper and lower case, and split by white space, line breaks, quotes,
//     backslashes and invisible characters
//   - escaped as in Go, JSON, URLs and HTML, in whole or in part, up to six times
//   - in base64, alone or within a longer text that was encoded
//   - in hexadecimal, with or without separators and 0x
//   - as a list of its bytes, decimal or hexadecimal
//
// The last three may be escaped in turn. Base32, octal, quoted-printable and base64 of base64 are not found.
package safetext

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// ellipsis marks where a text was cut.
const ellipsis = "..."

// Line returns a text as one line of printable characters: every run of others, line breaks, control and invisible
// formatting characters among them, becomes one space, and bytes that are no UTF-8 become U+FFFD. A text of more than
// limit bytes is cut between characters and ends with "...".
func Line(text string, limit int) string {
	var b strings.Builder
	space := false
	for _, r := range text {
		if !unicode.IsPrint(r) || r == ' ' {
			space = b.Len() > 0
			continue
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r)
		if b.Len() > limit { // what follows changes nothing
			break
		}
	}
	return Cut(b.String(), limit)
}

// Block returns a text of printable characters, line breaks and tabs, with U+FFFD for every other one and
// for bytes that are no UTF-8. A text of more than limit bytes is cut as by Cut.
func Block(text string, limit int) string {
	return Cut(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' || r == '\t' {
			return r
		}
		return utf8.RuneError
	}, text), limit)
}

// Cut returns a text of at most limit bytes, cut between characters, where it ends with "...".
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := max(0, limit-len(ellipsis))
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}

// Printable reports whether a text can be shown as it is: printable UTF-8 on one line.
func Printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// Line returns a text without the secrets, as the function Line.
func (s *Secrets) Line(text string, limit int) string { return Line(s.Redact(text), limit) }

// Block returns a text without the secrets, as the function Block.
func (s *Secrets) Block(text string, limit int) string { return Block(s.Redact(text), limit) }

// Quote returns a text without the secrets as a quoted Go string of at most
// limit bytes before quoting, so that its borders are plain in a sentence.
func (s *Secrets) Quote(text string, limit int) string {
	return strconv.Quote(Cut(s.Redact(text), limit))
}

const maxNames = 32 // that are remembered

// Names makes names that a server repeats in every reply safe to show, and looks for secrets in each of
// them once. It is safe for concurrent use.
type Names struct {
	secrets *Secrets
	limit   int

	mu   sync.Mutex
	seen []cleaned // few, in little room
}

type cleaned struct{ name, shown string }

// NewNames returns Names that cuts a name at limit bytes.
func NewNames(secrets *Secrets, limit int) *Names {
	return &Names{secrets: secrets, limit: limit}
}

// Clean returns a name as Secrets.Line does.
func (n *Names) Clean(name string) string {
	if name == "" {
		return ""
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := slices.IndexFunc(n.seen, func(c cleaned) bool { return c.name == name }); i >= 0 {
		return n.seen[i].shown
	}
	if len(n.seen) >= maxNames { // a server that makes them up
		n.seen = nil
	}
	clean := n.secrets.Line(name, n.limit)
	n.seen = append(n.seen, cleaned{name, clean})
	return clean
}

// Configured are all secrets of a configuration; nil holds none. It is safe for concurrent use, but for
// Replace, which one goroutine at a time may call.
type Configured struct {
	indexed atomic.Pointer[Secrets]
	latest  []string
}

// Replace takes the secrets of a configuration that may come into force. Those of the
// one before are kept, as what is under way may still show them.
func (c *Configured) Replace(values []string) {
	c.indexed.Store(NewSecrets(values...).With(c.latest...).Indexed())
	c.latest = values
}

// Secrets returns a set that finds these secrets as they are at the time of a search,
// beside those that With adds to it. Values does not return them.
func (c *Configured) Secrets() *Secrets { return &Secrets{configured: c} }

// find returns where a text holds one of them, in no order.
func (c *Configured) find(text layer) []span {
	if c == nil {
		return nil
	}
	return c.indexed.Load().spans(text)
}

// maxBetween is how many characters may be between two bytes of a list: ", ", or a line break and an indent.
const maxBetween = 16

// lists returns what the lists of bytes in a text say, each with a line break after it: decimal ones, as of
// %v in Go, and hexadecimal ones, as in de:ad:be and 0xde, 0xad. Ones too short for a secret are left out.
func (l layer) lists() []layer {
	numbers := numbersIn(l.bytes)
	if len(numbers) < minSecret {
		return nil
	}
	var all []layer
	for _, base := range []int{10, 16} {
		if found := l.listsOf(numbers, base); found.bytes != "" {
			all = append(all, found)
		}
	}
	return all
}

// numbersIn returns where a text has what may be a byte: two hexadecimal digits or up to
// three decimal ones, with or without 0x, between other characters.
func numbersIn(text string) []span {
	var all []span
	for i := 0; i < len(text); i++ {
		begin := i
		for i < len(text) && isWord(text[i]) {
			i++
		}
		if i-begin == len("0xff") && text[begin] == '0' && text[begin+1]|0x20 == 'x' {
			begin += len("0x")
		}
		if n := i - begin; n >= 1 && n <= 3 {
			all = append(all, span{begin: begin, end: i})
		}
	}
	return all
}

func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
}

func (l layer) listsOf(numbers []span, base int) layer {
	var bytes []byte
	var at []int
	begin, end := 0, 0 // of the list, in bytes; of its latest number, in l
	finish := func() {
		if len(bytes)-begin < minSecret {
			bytes, at = bytes[:begin], at[:begin]
			return
		}
		bytes, at = append(bytes, '\n'), append(at, l.where(end))
		begin = len(bytes)
	}
	for _, n := range numbers {
		v, err := strconv.ParseUint(l.bytes[n.begin:n.end], base, 8)
		if err != nil || base == 16 && n.end-n.begin != 2 {
			continue
		}
		if n.begin-end > maxBetween {
			finish()
		}
		bytes, at = append(bytes, byte(v)), append(at, l.where(n.begin))
		end = n.end
	}
	finish()
	return layer{string(bytes), append(at, l.where(end))}
}
