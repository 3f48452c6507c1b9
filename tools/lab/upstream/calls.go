package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// In Python, Go, Rust and C++ alike a metric is defined by a call whose name says of what type it is: Gauge(…), NewCounterVec(…),
// describe_histogram!(…), meter.Int64Counter(…). What differs is how its arguments say the name and the labels.
var (
	call     = regexp.MustCompile(`[\w.:]*?((?i:gauge|up_?down_?counter|counter|histogram|summary|info)|NewDesc)\w*!?(?:::new|::with_opts)?\s*\(`)
	constant = regexp.MustCompile(`(?m)^\s*(?:pub |pub\(\w+\) |const |static |var |let )*([A-Za-z_]\w*)\s*(?::\s*[&\w. ]+|string)?\s*:?=\s*([frb]{0,2}["'\x60(\[A-Za-z_][^=\n]*(?:\n\s+[frb]{0,2}["'][^\n]*)*)`)
	scope    = regexp.MustCompile(`(?m)^\s*(?:class|pub mod|mod) (\w+)`)
	field    = regexp.MustCompile(`\b(Namespace|Subsystem|Name|name|metric_name)\s*(?::|=)\s*`)
	opts     = regexp.MustCompile(`\b\w*Opts::new\(\s*`)
	labeled  = regexp.MustCompile(`\b(?:labelnames|label_names|labels|tag_keys)\s*=\s*|\[\]string\{|&\[`)
	before   = regexp.MustCompile(`(?:\[([\w.]+)\]\s*=\s*\(?|([\w.]+)\s*:)\s*$`)
	arrow    = regexp.MustCompile(`"(\w+)"\s*=>`)
	unit     = regexp.MustCompile(`(?:WithUnit\(|\bunit\s*=\s*)"([^"]*)"`)
	word     = regexp.MustCompile(`^[A-Za-z_][\w.:]*`)
	isLabels = regexp.MustCompile(`^(append\(.*|[\w.]+)$`)
	isLabel  = regexp.MustCompile(`^[A-Za-z_][\w.]*$`)
	hole     = regexp.MustCompile(`\{[^{}]*\}|%[sv]`)
)

// calls returns the metrics that calls in files define.
func (s *source) calls(files []file) []metric {
	e := evaluator{values: s.Values, shared: map[string]string{}}
	var clean []file
	for _, f := range files {
		f.text = withoutComments(f)
		clean = append(clean, f)
		for name, expr := range constants(f.text) {
			if known, ok := e.shared[name]; ok && known != expr {
				expr = ""
			}
			e.shared[name] = expr
		}
	}
	var found []metric
	for _, f := range clean {
		e.local = constants(f.text)
		for _, at := range call.FindAllStringSubmatchIndex(f.text, -1) {
			kind := strings.ToLower(strings.ReplaceAll(f.text[at[2]:at[3]], "_", ""))
			m := e.metric(kind, arguments(f.text[at[1]:]))
			if m.Name == "" { // a table of what describes metrics, by name
				if key := before.FindStringSubmatch(f.text[max(0, at[0]-200):at[0]]); key != nil {
					m.Name = e.eval(key[1]+key[2], 0)
				}
			}
			if m.Name != "" {
				found = append(found, m)
			}
		}
	}
	return found
}

// metric returns what a call with such arguments defines.
func (e *evaluator) metric(kind string, args []string) metric {
	all := strings.Join(args, ",")
	m := metric{Type: kind}
	switch kind {
	case "info", "updowncounter":
		m.Type = "gauge"
	case "newdesc": // of a collector, which says it elsewhere
		m.Type = ""
	}
	if u := unit.FindStringSubmatch(all); u != nil {
		m.Unit = u[1]
	}
	m.Name = e.name(args, all)
	m.Labels = e.labels(args, all)
	return m
}

// name returns the name that the arguments of a call give: in a field or a keyword, or the first that is a text.
func (e *evaluator) name(args []string, all string) string {
	var parts [3]string // of Prometheus' options in Go
	for _, at := range field.FindAllStringSubmatchIndex(all, -1) {
		part := map[string]int{"Namespace": 0, "Subsystem": 1}
		i, ok := part[all[at[2]:at[3]]]
		if !ok {
			i = 2
		}
		if parts[i] == "" {
			parts[i] = e.eval(arguments(all[at[1]:])[0], 0)
		}
	}
	if parts[2] != "" {
		return strings.Join(slices.DeleteFunc(parts[:], func(p string) bool { return p == "" }), "_")
	}
	if at := opts.FindStringIndex(all); at != nil {
		return e.eval(arguments(all[at[1]:])[0], 0)
	}
	for _, a := range args[:min(2, len(args))] {
		if name := e.eval(a, 0); name != "" {
			return name
		}
	}
	return ""
}

// labels returns the labels that a call writes out: in a keyword, a list of its own, or an argument after
// the name.
func (e *evaluator) labels(args []string, all string) []string {
	var labels []string
	for _, m := range arrow.FindAllStringSubmatch(all, -1) {
		labels = append(labels, m[1])
	}
	if at := labeled.FindStringIndex(all); at != nil {
		written := inside(all[at[1]:])
		if strings.HasSuffix(strings.TrimSpace(all[at[0]:at[1]]), "=") {
			written = arguments(all[at[1]:])[0]
		}
		return append(labels, e.words(written, 0)...)
	}
	for i, a := range args[:min(4, len(args))] {
		if i > 1 && strings.HasPrefix(a, "[") || i > 0 && isLabels.MatchString(a) {
			labels = append(labels, e.words(a, 0)...)
		}
	}
	return labels
}

// words returns the texts in a list, and those in the constants that it names.
func (e *evaluator) words(list string, depth int) []string {
	var all []string
	for list != "" && depth < 4 {
		if n := literalAt(list); n > 0 {
			if label, ok := e.literal(list[:n], nil, 0); ok && isLabel.MatchString(label) {
				all = append(all, label)
			}
			list = list[n:]
			continue
		}
		if name := word.FindString(list); name != "" {
			if called, ok := strings.CutPrefix(list[len(name):], "("); ok && name != "append" { // whatever it returns
				list = called[len(inside(called)):]
				continue
			}
			if expr := e.expression(name); expr != "" {
				all = append(all, e.words(expr, depth+1)...)
			}
			list = list[len(name):]
			continue
		}
		list = list[1:]
	}
	return all
}

// evaluator works out texts that are written as literals, constants and sums of those.
type evaluator struct {
	values, local, shared map[string]string
}

// eval returns the text of an expression; "" where it is none or is not known.
func (e *evaluator) eval(expr string, depth int) string {
	var text strings.Builder
	for rest := strings.TrimSpace(expr); rest != ""; rest = strings.TrimSpace(rest) {
		if depth > 5 {
			return ""
		}
		if value, ok := e.values[strings.TrimSuffix(rest, ",")]; ok {
			return text.String() + value
		}
		switch name := word.FindString(rest); {
		case rest[0] == '+' || rest[0] == '&':
			rest = rest[1:]
		case rest[0] == '(':
			inner := inside(rest[1:])
			text.WriteString(e.eval(inner, depth+1))
			rest = rest[min(len(rest), len(inner)+2):]
		case literalAt(rest) > 0:
			n := literalAt(rest)
			value, ok := e.literal(rest[:n], nil, depth)
			if !ok {
				return ""
			}
			text.WriteString(value)
			rest = rest[n:]
		case name == "":
			return text.String() // a method of the text, an index
		default:
			rest = rest[len(name):]
			if called := strings.TrimPrefix(rest, "!"); strings.HasPrefix(called, "(") {
				args := arguments(called[1:])
				if n := literalAt(args[0]); n > 0 { // a format
					value, ok := e.literal(args[0][:n], args[1:], depth)
					if !ok {
						return ""
					}
					return text.String() + value
				}
				return ""
			}
			value := e.resolve(name, depth)
			if value == "" {
				return ""
			}
			text.WriteString(value)
		}
	}
	return text.String()
}

// literal returns the text of a literal with what its places are filled with.
func (e *evaluator) literal(quoted string, args []string, depth int) (string, bool) {
	start := strings.IndexAny(quoted, "\"'`")
	formatted := args != nil || strings.ContainsAny(quoted[:start], "fF")
	value, ok := quoted[start+1:len(quoted)-1], true
	if !formatted {
		return value, true
	}
	value = hole.ReplaceAllStringFunc(value, func(place string) string {
		inner := strings.Trim(place, "{}")
		if (inner == "" || place[0] == '%') && len(args) > 0 {
			inner, args = args[0], args[1:]
		}
		filled := e.eval(inner, depth+1)
		ok = ok && filled != ""
		return filled
	})
	return value, ok
}

// resolve returns the value of a constant by the last part of its path.
func (e *evaluator) resolve(path string, depth int) string {
	if value, ok := e.values[path]; ok {
		return value
	}
	return e.eval(e.expression(path), depth+1)
}

// expression returns what a constant is set to.
func (e *evaluator) expression(path string) string {
	parts := strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == ':' })
	last := parts[len(parts)-1]
	names := []string{last}
	if len(parts) > 1 {
		names = []string{parts[len(parts)-2] + "." + last, last}
	}
	for _, name := range names {
		if expr := e.local[name]; expr != "" {
			return expr
		}
		if expr := e.shared[name]; expr != "" {
			return expr
		}
	}
	return ""
}

// constants returns what names are set to in a text; "" where it is more than one thing. A name in a class or a module is there with
// that too. What ends in a comma is an argument.
func constants(text string) map[string]string {
	all := map[string]string{}
	add := func(name, expr string) {
		if known, ok := all[name]; ok && known != expr {
			expr = ""
		}
		all[name] = expr
	}
	scopes := scope.FindAllStringSubmatchIndex(text, -1)
	for _, at := range constant.FindAllStringSubmatchIndex(text, -1) {
		name, expr := text[at[2]:at[3]], strings.TrimSpace(text[at[4]:at[5]])
		expr, isArgument := strings.CutSuffix(expr, ",")
		expr = strings.TrimRight(expr, ";")
		if isArgument || expr == name || strings.HasSuffix(expr, "."+name) { // as it is elsewhere
			continue
		}
		add(name, expr)
		for len(scopes) > 1 && scopes[1][0] < at[0] {
			scopes = scopes[1:]
		}
		if len(scopes) > 0 && scopes[0][0] < at[0] {
			add(text[scopes[0][2]:scopes[0][3]]+"."+name, expr)
		}
	}
	return all
}

// literalAt returns the length of the literal at the start of a text; 0 is none.
func literalAt(text string) int {
	i := 0
	for i < len(text) && i < 2 && strings.IndexByte("frbFRB", text[i]) >= 0 {
		i++
	}
	if i == len(text) || strings.IndexByte("\"'`", text[i]) < 0 {
		return 0
	}
	if n := quotedLen(text[i:]); n > 1 {
		return i + n
	}
	return 0
}

// quotedLen returns the length of a text in quotes, which begins with one; 1 where none closes it in its line, as after a lifetime in
// Rust.
func quotedLen(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case text[0]:
			return i + 1
		case '\n':
			if text[0] != '`' {
				return 1
			}
		}
	}
	return 1
}

// walk calls visit with each place in a text that is not in quotes and how many brackets are open after it, until visit returns false.
func walk(text string, visit func(i, open int) bool) {
	open := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"', '\'', '`':
			i += quotedLen(text[i:]) - 1
			continue
		case '(', '[', '{':
			open++
		case ')', ']', '}':
			open--
		}
		if !visit(i, open) {
			return
		}
	}
}

// inside returns a text up to the bracket that closes what was open before it.
func inside(text string) string {
	end := len(text)
	walk(text, func(i, open int) bool {
		if open < 0 {
			end = i
		}
		return open >= 0
	})
	return text[:end]
}

// arguments returns the arguments at the start of a text that follows an open bracket.
func arguments(text string) []string {
	text = inside(text)
	var args []string
	start := 0
	walk(text, func(i, open int) bool {
		if text[i] == ',' && open == 0 {
			args = append(args, strings.TrimSpace(text[start:i]))
			start = i + 1
		}
		return true
	})
	return append(args, strings.TrimSpace(text[start:]))
}

// withoutComments returns the text of a file without comments and, in Python, without texts in three quotes.
func withoutComments(f file) string {
	python := filepath.Ext(f.path) == ".py"
	var clean strings.Builder
	for i := 0; i < len(f.text); i++ {
		rest := f.text[i:]
		switch {
		case python && (strings.HasPrefix(rest, `"""`) || strings.HasPrefix(rest, "'''")):
			_, after, _ := strings.Cut(rest[3:], rest[:3])
			clean.WriteString(`""`)
			i = len(f.text) - len(after) - 1
		case rest[0] == '"' || rest[0] == '`' || rest[0] == '\'' && python:
			n := quotedLen(rest)
			clean.WriteString(rest[:n])
			i += n - 1
		case python && rest[0] == '#' || !python && strings.HasPrefix(rest, "//"):
			line, _, _ := strings.Cut(rest, "\n")
			i += len(line) - 1
		case !python && strings.HasPrefix(rest, "/*"):
			_, after, _ := strings.Cut(rest, "*/")
			i = len(f.text) - len(after) - 1
		case !python && rest[0] == '\'': // a character, a lifetime
			n := 1
			if len(rest) > 2 && (rest[2] == '\'' || rest[1] == '\\' && len(rest) > 3 && rest[3] == '\'') {
				n = quotedLen(rest)
			}
			if n > 1 {
				clean.WriteString("0")
			}
			i += n - 1
		default:
			clean.WriteByte(rest[0])
		}
	}
	return clean.String()
}
