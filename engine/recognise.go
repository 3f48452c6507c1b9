package engine

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// What an error repeats of a page.
const (
	maxNamesShown = 5
	maxBytesShown = 80
)

var typeLine = []byte("# TYPE ")

// recognise returns the mapping to read a page with: that of the wanted engine
// where the page has any series of it, else the first one in rank that has a
// sentinel there. Without one it returns nil and the first names of the page.
func (m *Mappings) recognise(page []byte, engine string) (*mapping, []string) {
	wanted := m.byName[engine]
	best := len(m.ranked)
	var names []string
	var buf, last, line []byte
	for len(page) > 0 {
		line, page, _ = bytes.Cut(page, []byte("\n"))
		name := lineName(line)
		if len(name) == 0 || bytes.Equal(name, last) {
			continue
		}
		last = name
		buf = appendPlain(buf[:0], name)
		if wanted != nil && wanted.has(buf) {
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
	return m.ranked[best], nil
}

// isOfRuntime tells whether a series is of a client library, and so says
// nothing of the server software.
func isOfRuntime(name []byte) bool {
	for _, prefix := range []string{"python_", "process_", "go_", "promhttp_"} {
		if bytes.HasPrefix(name, []byte(prefix)) {
			return true
		}
	}
	return false
}

// has tells whether a plain name, of a series or a family, is one of the
// mapping. The start of the process is on the pages of all engines.
func (c *mapping) has(name []byte) bool {
	if t := c.targets[string(name)]; len(t) > 0 {
		return t[0].source != c.start
	}
	return len(c.families[string(name)]) > 0
}

// lineName returns the name of the family or the series that a line is of; an
// empty one for other lines.
func lineName(line []byte) []byte {
	if rest, ok := bytes.CutPrefix(line, typeLine); ok {
		return bytes.Trim(seriesName(rest), `"`)
	}
	if bytes.HasPrefix(line, []byte("#")) {
		return nil
	}
	return seriesName(line)
}

// quoted quotes the beginning of what stands on a page.
func quoted(b []byte) string {
	if len(b) > maxBytesShown {
		return strconv.Quote(string(b[:maxBytesShown])) + "..."
	}
	return strconv.Quote(string(b))
}

// describe says which names a page has that no mapping knows.
func describe(names []string) string {
	if len(names) == 0 {
		return "the page has series of a client library only"
	}
	return "no mapping knows " + strings.Join(names, ", ") + ", ..."
}
