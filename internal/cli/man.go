package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kingpin/v2"
)

// Man returns what the command that prints the manual page does. c is its clause, which
// takes nothing.
func Man(app *kingpin.Application, _ *kingpin.CmdClause) func(io.Writer) error {
	return func(w io.Writer) error {
		if _, err := io.WriteString(w, Describe(app).Man()); err != nil {
			return fmt.Errorf("print the manual page: %w", err)
		}
		return nil
	}
}

// Man returns the manual page, in the macros of man(7). It has no date and no
// version, so that one file in docs/ can be compared with it.
func (l Description) Man() string {
	var b roff
	b.macro("TH", strings.ToUpper(l.Name), "1", "", l.Name)
	b.macro("SH", "NAME")
	b.line(l.Name + ` \- ` + escape(manTitle(l.Help)))
	b.macro("SH", "SYNOPSIS")
	for i, c := range l.Commands {
		if i > 0 {
			b.macro("br")
		}
		b.usage(c.Usage(l.Name))
	}
	b.macro("SH", "DESCRIPTION")
	b.text("Probes inference endpoints as a user would, reads the metrics pages of the servers behind them and the GPUs underneath, and " +
		"exposes what it finds to Prometheus.")
	b.macro("PP")
	b.text("A flag of a command stands after it, one of every command may stand before it too. What a configuration file may hold is described in docs/configuration.md.")
	b.macro("SH", "OPTIONS OF EVERY COMMAND")
	b.flags(l.Flags)
	b.macro("SH", "COMMANDS")
	for _, c := range l.Commands {
		b.command(l.Name, c)
	}
	b.macro("SH", "EXIT STATUS")
	for _, e := range ExitCodes() {
		b.item(e.Of, e.Meaning)
	}
	b.macro("SH", "SIGNALS")
	for _, s := range Signals() {
		b.item(s.Of, s.Meaning)
	}
	b.macro("SH", "EXAMPLES")
	for _, c := range l.Commands {
		for _, e := range c.Examples {
			b.example(e)
		}
	}
	return b.String()
}

// manTitle is a help text as the line under NAME has it: no capital, no full stop.
func manTitle(help string) string { return strings.TrimSuffix(help, ".") }

// roff builds a page; its methods take plain text and escape it.
type roff struct{ strings.Builder }

// line writes a line as it is.
func (b *roff) line(s string) { b.WriteString(s + "\n") }

// macro writes a macro with its arguments.
func (b *roff) macro(name string, args ...string) {
	b.WriteString("." + name)
	for _, a := range args {
		b.WriteString(` "` + strings.ReplaceAll(escape(a), `"`, `\(dq`) + `"`)
	}
	b.WriteString("\n")
}

// text writes a text, each sentence on a line of its own, as roff wants it.
func (b *roff) text(s string) {
	for sentence := range strings.SplitSeq(s, ". ") {
		if !strings.HasSuffix(sentence, ".") && !strings.HasSuffix(s, sentence) {
			sentence += "."
		}
		b.line(escape(sentence))
	}
}

// item writes a tagged paragraph.
func (b *roff) item(tag, text string) {
	b.macro("TP")
	b.line(`\fB` + escape(tag) + `\fR`)
	b.text(text)
}

// usage writes how a command is called, with its words in bold and what they
// stand for in italics.
func (b *roff) usage(s string) {
	var words []string
	for word := range strings.FieldsSeq(s) {
		name, value, _ := strings.Cut(word, "=")
		font := `\fB`
		if strings.Trim(word, "[]") == strings.ToUpper(strings.Trim(word, "[]")) {
			font = `\fI`
		}
		word = font + escape(name) + `\fR`
		if value != "" {
			word += `=\fI` + escape(value) + `\fR`
		}
		words = append(words, word)
	}
	b.line(strings.Join(words, " "))
}

func (b *roff) command(program string, c Command) {
	b.macro("SS", c.Name)
	b.usage(c.Usage(program))
	b.macro("PP")
	b.text(c.Help)
	b.text(c.Text)
	for _, a := range c.Args {
		b.macro("TP")
		b.line(`\fI` + escape(a.Name) + `\fR`)
		b.text(a.Help)
	}
	b.flags(c.Flags)
}

func (b *roff) flags(flags []Flag) {
	for _, f := range flags {
		b.macro("TP")
		name, value, _ := strings.Cut(f.Long(), "=")
		tag := `\fB` + escape(name) + `\fR`
		if f.Short != 0 {
			tag = `\fB\-` + string(f.Short) + `\fR, ` + tag
		}
		if value != "" {
			tag += `=\fI` + escape(value) + `\fR`
		}
		b.line(tag)
		b.text(f.Help)
		if d := f.Default(); d != "" {
			b.text("Default: " + d + ".")
		}
		for _, more := range f.Remarks() {
			b.text(more)
		}
	}
}

func (b *roff) example(e Example) {
	b.macro("TP")
	b.line(`\fB` + escape(e.Line) + `\fR`)
	b.text(e.Purpose)
}

// escape keeps roff from reading anything into a text.
func escape(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", `\(ga`, "'", `\(aq`, "^", `\(ha`, "~", `\(ti`).Replace(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	return s
}
