package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
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
	parser  textparse.Parser
	seen    []byte // the latest piece of text that was read well; nil before the first
	samples int
}

// openPage returns the page ready to be parsed in the format that the content
// type names; a server that names none is taken to mean the text format.
func openPage(text []byte, contentType string) (*page, *PageError) {
	media := "text/plain"
	if contentType != "" {
		var err error
		if media, _, err = mime.ParseMediaType(contentType); err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
			return nil, pageErrorf(ReasonFormat, "content type %s: not a media type", quoted([]byte(contentType)))
		}
	}
	if media != "text/plain" && media != "application/openmetrics-text" {
		return nil, pageErrorf(ReasonFormat, "content type %s: want the text format of Prometheus", quoted([]byte(media)))
	}
	if bytes.IndexByte(text, 0) >= 0 {
		return nil, pageErrorf(ReasonFormat, "zero byte: not a text") // the parser would take it for the end
	}
	if !bytes.HasSuffix(text, []byte("\n")) {
		text = append(text[:len(text):len(text)], '\n')
	}
	p := &page{text: text}
	if media == "text/plain" {
		// The parser appends a line break: here it writes the one that is there.
		text = text[:len(text)-1]
	}
	var err error
	if p.parser, err = textparse.New(text, media, labels.NewSymbolTable(), textparse.ParserOptions{}); err != nil {
		return nil, pageErrorf(ReasonFormat, "content type %s: %w", quoted([]byte(media)), err)
	}
	return p, nil
}

// next goes on to the next sample or type. At the end of the page it returns
// textparse.EntryInvalid.
func (p *page) next() (textparse.Entry, *PageError) {
	for {
		entry, err := p.parser.Next()
		switch {
		case errors.Is(err, io.EOF):
			return textparse.EntryInvalid, nil
		case err != nil:
			text := err.Error()
			text = strings.ToValidUTF8(text[:min(len(text), 2*maxBytesShown)], "")
			return textparse.EntryInvalid, pageErrorf(ReasonFormat, "line %d: %s", p.badLine(), text)
		}
		switch entry {
		case textparse.EntrySeries:
			p.seen, _, _ = p.parser.Series()
			if p.samples++; p.samples > maxSamples {
				return entry, pageErrorf(ReasonTooLarge, "more than %d samples", maxSamples)
			}
			return entry, nil
		case textparse.EntryType:
			p.seen, _ = p.parser.Type()
			return entry, nil
		case textparse.EntryHelp:
			p.seen, _ = p.parser.Help()
		case textparse.EntryComment:
			p.seen = p.parser.Comment()
		}
	}
}

// offset returns where a piece of the text begins, which the parser returned
// without copying it.
func (p *page) offset(piece []byte) int { return cap(p.text) - cap(piece) }

// badLine returns the number of the first line with content after the latest
// piece that was read well.
func (p *page) badLine() int {
	at := 0
	if p.seen != nil {
		at = p.offset(p.seen)
		at += bytes.IndexByte(p.text[at:], '\n') + 1
	}
	for at < len(p.text)-1 && p.text[at] == '\n' {
		at++
	}
	return 1 + bytes.Count(p.text[:at], []byte("\n"))
}

// at returns the beginning of the line at an offset, quoted.
func (p *page) at(offset int) string {
	line, _, _ := bytes.Cut(p.text[offset:], []byte("\n"))
	return quoted(line)
}

// isHistogram tells whether a family of a type has buckets.
func isHistogram(t model.MetricType) bool {
	return t == model.MetricTypeHistogram || t == model.MetricTypeGaugeHistogram
}
