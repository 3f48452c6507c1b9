package page

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// Bounds of a page.
const (
	maxSamples       = 200_000
	maxMappedSamples = 50_000
	maxSeriesBytes   = 16 << 10 // name and labels of a mapped sample
)

// PageError says why a page was not read.
type PageError struct {
	Reason Reason
	Err    error
}

// Error says what is wrong, in a bounded number of bytes.
func (e *PageError) Error() string { return e.Err.Error() }

// Unwrap returns the error without the reason.
func (e *PageError) Unwrap() error { return e.Err }

func pageErrorf(r Reason, format string, args ...any) *PageError {
	return &PageError{Reason: r, Err: fmt.Errorf(format, args...)}
}

// page is the text of a page on its way through the parser.
type page struct {
	text    []byte // ends with a line break
	plain   bool   // is in the text format, where a line is a sample
	json    bool   // the text was made of one of JSON
	parser  textparse.Parser
	seen    []byte // the latest piece of text that was read well; nil before the first
	samples int
}

// openPage returns the page ready to be parsed in the format that the content type names; a server that
// names none means the text format.
func openPage(text []byte, contentType string) (*page, error) {
	media := "text/plain"
	if contentType != "" {
		var err error
		if media, _, err = mime.ParseMediaType(contentType); err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
			return nil, pageErrorf(ReasonFormat, "content type %s: not a media type", quoted([]byte(contentType)))
		}
	}
	isJSON := media == mediaJSON
	switch {
	case isJSON:
		var err error
		if text, err = flatten(text); err != nil {
			return nil, err
		}
		media = "text/plain"
	case media != "text/plain" && media != "application/openmetrics-text":
		return nil, notText(media)
	}
	if bytes.IndexByte(text, 0) >= 0 {
		return nil, pageErrorf(ReasonFormat, "zero byte: not a text") // the parser would take it for the end
	}
	if !bytes.HasSuffix(text, lineBreak) {
		text = append(text[:len(text):len(text)], '\n')
	}
	p := &page{text: text, plain: media == "text/plain", json: isJSON}
	if p.plain {
		text = text[:len(text)-1] // the parser appends a line break: it writes the one that is there
	}
	var err error
	if p.parser, err = textparse.New(text, media, labels.NewSymbolTable(), textparse.ParserOptions{}); err != nil {
		return nil, pageErrorf(ReasonFormat, "content type %s: %w", quoted([]byte(media)), err)
	}
	return p, nil
}

// notText returns the error of a page in a format that is not read.
func notText(media string) *PageError {
	return pageErrorf(ReasonFormat, "content type %s: want the text format of Prometheus", quoted([]byte(media)))
}

// each calls series at each sample of the page, whose error ends it, and typ at each type.
func (p *page) each(series func() error, typ func()) error {
	for {
		entry, err := p.parser.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return pageErrorf(ReasonFormat, "line %d: %s", p.badLine(), safetext.Cut(err.Error(), 2*maxBytesShown))
		}
		switch entry {
		case textparse.EntrySeries:
			p.seen, _, _ = p.parser.Series()
			if p.samples++; p.samples > maxSamples {
				return pageErrorf(ReasonTooLarge, "more than %d samples", maxSamples)
			}
			if failed := series(); failed != nil {
				return failed
			}
		case textparse.EntryType:
			p.seen, _ = p.parser.Type()
			typ()
		case textparse.EntryHelp:
			p.seen, _ = p.parser.Help()
		case textparse.EntryComment:
			p.seen = p.parser.Comment()
		}
	}
}

// only returns a page with the lines alone whose names the mapping has, made in buf: most of the time is
// the parser's, and half of a page is often not mapped. It returns nil where the page is to be parsed
// whole. What is left out has the form of samples and comments, and is not checked further.
func (p *page) only(c *mapping, buf []byte) *page {
	if !p.plain || len(p.text) > smallPage {
		return nil
	}
	var name, line []byte
	plain, keep := make([]byte, 0, 128), false
	buf = slices.Grow(buf[:0], len(p.text))
	for rest, n := p.text, 0; len(rest) > 0; n++ {
		if line, rest, _ = bytes.Cut(rest, lineBreak); n == maxSamples {
			return nil
		}
		if !isOf(line, name) {
			name = lineName(line)
			plain = appendPlain(plain[:0], name)
			keep = len(c.targets[string(plain)])+len(c.families[string(plain)]) > 0
		}
		if keep || !isSkippable(line, name) {
			buf = append(append(buf, line...), '\n')
		}
	}
	kept := &page{text: buf, plain: true}
	kept.parser = textparse.NewPromParser(buf[:max(0, len(buf)-1)], labels.NewSymbolTable(), false)
	return kept
}

// isSkippable reports whether a line with a name is a comment or has the form of a sample.
func isSkippable(line, name []byte) bool {
	switch {
	case len(line) == 0 || line[0] == '#':
		return true
	case len(name) == 0 || len(name) == len(line) || bytes.Count(line, quote)%2 != 0:
		return false
	}
	first, value := line[0], line[bytes.LastIndexByte(line, ' ')+1:]
	named := 'a' <= first && first <= 'z' || 'A' <= first && first <= 'Z' || first == '_' || first == ':'
	return named && len(value) > 0 && bytes.IndexByte(numberStarts, value[0]) >= 0
}

// offset returns where a piece of the text begins, which the parser returned without copying it.
func (p *page) offset(piece []byte) int { return cap(p.text) - cap(piece) }

// badLine returns the number of the first line with content after the latest piece that was read well.
func (p *page) badLine() int {
	at := 0
	if p.seen != nil {
		at = p.offset(p.seen)
		at += bytes.IndexByte(p.text[at:], '\n') + 1
	}
	for at < len(p.text)-1 && p.text[at] == '\n' {
		at++
	}
	return 1 + bytes.Count(p.text[:at], lineBreak)
}

// at returns the beginning of the line at an offset, quoted.
func (p *page) at(offset int) string {
	line, _, _ := bytes.Cut(p.text[offset:], lineBreak)
	return quoted(line)
}

var rayPrefix = []byte("ray_")

// appendPlain appends the form of a series name that all ways to write it have in common: Ray and
// exporters that escape write `a:b` as `ray_a_b` and `a_b`.
func appendPlain(b, name []byte) []byte {
	n := len(b)
	b = append(b, bytes.TrimPrefix(name, rayPrefix)...)
	for i := n; i < len(b); i++ {
		if b[i] == ':' {
			b[i] = '_'
		}
	}
	return b
}

// plain is appendPlain for a name of a mapping.
func plain(name string) string { return string(appendPlain(nil, []byte(name))) }

const (
	spelledByRay = 2 // the part of a spelling that means that Ray writes the name
	spellings    = 4 // how many there are
)

// spelling returns how a name is written, the engine's own way first: a page that has a series in
// two ways has it twice.
func spelling(name []byte) uint8 {
	var s uint8
	if bytes.IndexByte(name, ':') < 0 {
		s++
	}
	if bytes.HasPrefix(name, rayPrefix) {
		s += spelledByRay
	}
	return s
}

// seriesName returns the name at the start of a series, which may be in quotes inside the braces.
func seriesName(series []byte) []byte {
	if quoted, ok := bytes.CutPrefix(series, []byte(`{"`)); ok {
		name, _, _ := bytes.Cut(quoted, quote)
		return name
	}
	for i, b := range series {
		if b == '{' || b == ' ' || b == '\t' {
			return series[:i]
		}
	}
	return series
}

// What an error repeats of a page.
const (
	maxNamesShown = 5
	maxBytesShown = 80
)

var typeLine, lineBreak, quote, numberStarts = []byte("# TYPE "), []byte("\n"), []byte(`"`), []byte("0123456789+-.NI")

// sentinelOf returns what is before the sentinels of mappings of JSON, which recognise no other page, and theirs not
// it: their names are as short as keys are.
func sentinelOf(isJSON bool) string {
	if isJSON {
		return "{"
	}
	return ""
}

// recognise returns the mapping to read a page with: that of the wanted engine where the page has any
// series of it, else the first one in rank with a sentinel there. Without one it returns nil and the
// first names of the page.
func (m *Mappings) recognise(p *page, engine string) (*mapping, []string) {
	var wanted *mapping
	if c := m.byName[engine]; c != nil && c.config.IsJSON() == p.json {
		wanted = m.mapping(c)
	}
	best, before := len(m.ranked), len(sentinelOf(p.json))
	var names []string
	var last, line []byte
	buf := []byte(sentinelOf(p.json))
	for page := p.text; len(page) > 0; {
		line, page, _ = bytes.Cut(page, lineBreak)
		if isOf(line, last) {
			continue
		}
		name := lineName(line)
		if len(name) == 0 || bytes.Equal(name, last) {
			continue
		}
		last = name
		buf = appendPlain(buf[:before], name)
		if wanted != nil && wanted.has(buf[before:]) {
			return wanted, nil
		}
		if i, ok := m.sentinels[string(buf)]; ok {
			best = min(best, i)
		}
		if len(names) < maxNamesShown && !isOfRuntime(name) {
			if shown := quoted(name); !slices.Contains(names, shown) {
				names = append(names, shown)
			}
		}
	}
	if best == len(m.ranked) {
		return nil, names
	}
	return m.mapping(m.ranked[best]), nil
}

// isOfRuntime reports whether a series is of a client library, and so says nothing of the server software.
func isOfRuntime(name []byte) bool {
	return slices.ContainsFunc([]string{"python_", "process_", "go_", "promhttp_"}, func(prefix string) bool {
		return strings.HasPrefix(string(name), prefix)
	})
}

// has reports whether a plain name, of a series or a family, is one of the mapping. The start of the
// process is on the pages of all engines.
func (c *mapping) has(name []byte) bool {
	if t := c.targets[string(name)]; len(t) > 0 {
		return t[0].source != c.start
	}
	return len(c.families[string(name)]) > 0
}

// isOf reports whether a line is a sample of a name: most lines of a page follow one of the same name.
func isOf(line, name []byte) bool {
	n := len(name)
	return n > 0 && len(line) > n && (line[n] == '{' || line[n] == ' ') && bytes.Equal(line[:n], name)
}

// lineName returns the name of the family or the series that a line is of; an empty one for other lines.
func lineName(line []byte) []byte {
	if rest, ok := bytes.CutPrefix(line, typeLine); ok {
		return bytes.Trim(seriesName(rest), `"`)
	}
	if bytes.HasPrefix(line, []byte("#")) {
		return nil
	}
	return seriesName(line)
}

// quoted quotes the beginning of a text of a page.
func quoted(b []byte) string { return strconv.Quote(safetext.Cut(string(b), maxBytesShown)) }
