package config

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// parseYAML returns the only document in data; nil with a mistake. key is one that an empty document lacks.
func parseYAML(data []byte, key string, r *report) *yaml.Node {
	if len(data) > maxFileBytes {
		r.errorf("", "the file is larger than %d MiB", maxFileBytes>>20)
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF) || err == nil && isNull(doc.Content[0]):
		r.errorf("", "the file is empty; want at least %s", key)
		return nil
	case err != nil:
		reportSyntax(r, data, err)
		return nil
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		r.errorAt(second.Content[0].Line, "", "a second YAML document; want one")
		return nil
	case !errors.Is(err, io.EOF):
		reportSyntax(r, data, err)
		return nil
	}
	r.lines[""] = doc.Content[0].Line
	return doc.Content[0]
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// reportSyntax reports an error of the YAML parser in the words of this package.
func reportSyntax(r *report, data []byte, err error) {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1 // the parser leaves the first line out
	if m := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(msg); m != nil {
		line, _ = strconv.Atoi(m[1])
		msg = msg[len(m[0]):]
		if isParserMessage(msg) {
			line++ // these count from 0
		}
	}
	if strings.HasPrefix(msg, "unknown anchor") {
		// The parser repeats the name, which may be a password that begins with an asterisk.
		line = 0
		msg = "an alias (*name) without its anchor (&name); put a value that begins with * in quotes"
	}
	if strings.Contains(msg, "tab character") && !isIndentedByTab(data, line) {
		line++
	}
	if isIndentedByTab(data, line) {
		msg = "a tab at the beginning of the line; want spaces"
	}
	r.errorAt(line, "", "not valid YAML: %s", msg)
}

// isIndentedByTab reports whether a line, counted from 1, has a tab before its text.
func isIndentedByTab(data []byte, line int) bool {
	lines := bytes.SplitN(data, []byte("\n"), line+1)
	if line < 1 || line > len(lines) {
		return false
	}
	own := lines[line-1]
	return bytes.IndexByte(own[:len(own)-len(bytes.TrimLeft(own, " \t"))], '\t') >= 0
}

// isParserMessage reports whether a message is one of the YAML parser and not of its scanner.
func isParserMessage(msg string) bool {
	expected := []string{"key", "'-' indicator", "',' or ']'", "',' or '}'", "node content", "<document start>"}
	return slices.Contains(expected, strings.TrimPrefix(msg, "did not find expected "))
}

// pair is one entry of a mapping.
type pair struct {
	key   string
	line  int
	value *yaml.Node
}

// pairs lists the entries of a mapping, those merged with << last and where no other has the key.
func (d *decoder) pairs(n *yaml.Node, p path) []pair {
	if !d.enter(n, p) {
		return nil
	}
	defer d.leave()
	var out []pair
	var merges []*yaml.Node
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := target(n.Content[i]), n.Content[i+1]
		line, dup := first[k.Value]
		switch {
		case k.Kind != yaml.ScalarNode:
			d.errorAt(n.Content[i].Line, p, "expected plain keys, got %s as a key", got(k))
		case k.Value == "<<": // quoted too: the encoder writes it without
			merges = append(merges, v)
		case dup:
			if !isPlain(k.Value) || d.secret && !d.isKeyLike(k.Value) {
				d.hidden[p.key(k.Value)] = p
			}
			d.errorAt(n.Content[i].Line, p.key(k.Value), "duplicate key, the first is on line %d", line)
		default:
			first[k.Value] = n.Content[i].Line
			out = append(out, pair{k.Value, n.Content[i].Line, v})
		}
	}
	for _, m := range merges {
		for _, e := range d.merged(m, p) {
			if _, ok := first[e.key]; !ok {
				first[e.key] = e.line
				out = append(out, e)
			}
		}
	}
	return out
}

// merged lists the entries that << adds: those of a mapping or of each mapping in a list.
func (d *decoder) merged(n *yaml.Node, p path) (all []pair) {
	items, want := []*yaml.Node{n}, "a mapping"
	if list := target(n); list.Kind == yaml.SequenceNode {
		items, want = list.Content, "mappings"
	}
	for _, item := range items {
		if item = target(item); item.Kind != yaml.MappingNode {
			d.errorAt(n.Line, p.key("<<"), "expected %s to merge, got %s", want, got(item))
			continue
		}
		all = append(all, d.pairs(item, p)...)
	}
	return all
}

// target follows an alias.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}
