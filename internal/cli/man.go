package cli

import (
	_ "embed"
	"fmt"
	"io"
	"strings"
	"text/template"

	"github.com/alecthomas/kingpin/v2"
)

// manTemplate is the page in the macros of man(7). It has no date and no version, so
// that one file in docs/ can be compared with it. The parser's own template,
// kingpin.ManPageTemplate, has the version, has no place for defaults, examples, exit
// codes, signals and the text of a command, and escapes nothing.
//
//go:embed man.tmpl
var manTemplate string

// Man returns what the command that prints the manual page does. c is its clause, which
// takes nothing.
func Man(app *kingpin.Application, _ *kingpin.CmdClause) func(io.Writer) error {
	return func(w io.Writer) error {
		page, err := Describe(app).Man()
		if err == nil {
			_, err = io.WriteString(w, page)
		}
		if err != nil {
			return fmt.Errorf("print the manual page: %w", err)
		}
		return nil
	}
}

// Man returns the manual page.
func (d Description) Man() (string, error) {
	page, err := template.New("man").Funcs(template.FuncMap{
		"upper": strings.ToUpper, "escape": escape, "sentences": sentences, "usage": usage, "tag": tag,
		"title":  func(help string) string { return escape(strings.TrimSuffix(help, ".")) },
		"notice": func() map[string][]Meaning { return map[string][]Meaning{"codes": ExitCodes(), "signals": Signals()} },
	}).Parse(manTemplate)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = page.Execute(&b, d)
	return b.String(), err
}

// sentences returns a text with each sentence on a line of its own, as roff wants it.
func sentences(s string) string {
	var b strings.Builder
	for sentence := range strings.SplitSeq(s, ". ") {
		if !strings.HasSuffix(sentence, ".") && !strings.HasSuffix(s, sentence) {
			sentence += "."
		}
		b.WriteString(escape(sentence) + "\n")
	}
	return b.String()
}

// usage returns how a command is called, with its words in bold and placeholders in
// italics.
func usage(s string) string {
	var words []string
	for word := range strings.FieldsSeq(s) {
		name, value, _ := strings.Cut(word, "=")
		font := `\fB`
		if bare := strings.Trim(word, "[]"); bare == strings.ToUpper(bare) {
			font = `\fI`
		}
		word = font + escape(name) + `\fR`
		if value != "" {
			word += `=\fI` + escape(value) + `\fR`
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// tag returns a flag as the heading of its paragraph.
func tag(f Flag) string {
	text := usage(f.Long())
	if f.Short != 0 {
		text = `\fB\-` + string(f.Short) + `\fR, ` + text
	}
	return text
}

// escape keeps roff from reading anything into a text.
func escape(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", `\(ga`, "'", `\(aq`, "^", `\(ha`, "~", `\(ti`).Replace(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	return s
}
