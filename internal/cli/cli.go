// Package cli is what the command line has beside its flags: help with examples, the
// manual page, completion, and errors that name what was meant. The rest is kingpin's.
package cli

import (
	"cmp"
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"

	"github.com/alecthomas/kingpin/v2"

	"github.com/inference-exporter/inference_exporter/internal/asset"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// Exit codes.
const (
	ExitOK      = 0
	ExitFailure = 1 // failed while running
	ExitUsage   = 2 // flags or configuration cannot be used

	// ExitUndecided is that of a comparison without a verdict: a gate blocks by ExitFailure alone.
	ExitUndecided = 2

	// ExitEarly is that of a load test that ended early, or did not begin.
	ExitEarly = 3
)

//go:embed all:completion
var completion embed.FS

// Notes are the texts of help and the manual page that are of no flag.
type Notes struct {
	Commands map[string]struct {
		Text     string // what the command does, prints and returns
		Examples []struct {
			Line    string // a command line that works
			Purpose string
		}
	}
	// ExitCodes are those of every command, Signals what the daemon does on each.
	ExitCodes []struct{ Of, Meaning string } `yaml:"exit_codes"`
	Signals   []struct{ Of, Meaning string }
}

//go:embed notes.yml
var notesFile []byte

// ReadNotes returns the notes.
var ReadNotes = asset.Once[Notes]("notes.yml", notesFile)

// helpTemplate is what --help and help print: kingpin's own has no examples, no text of a
// command but its title, and mixes its flags with those of every command.
//
//go:embed help.tmpl
var helpTemplate string

// manEnd is what the manual page ends with.
//
//go:embed man_end.tmpl
var manEnd string

// manTemplate returns kingpin's own manual page, with what it leaves out: the texts and examples of commands,
// environment variables, exit codes and signals. It has no version, so that one file in docs/ can be compared with it.
func manTemplate() string {
	const flags = `{{template "FormatFlags" . -}}`
	const notes = `{{with (note .Name).Text}}.PP
{{.}}
{{end}}` + flags + `{{range (note .Name).Examples}}.TP
\fB{{.Line}}\fR
{{.Purpose}}
{{end}}`
	return strings.NewReplacer(
		"{{.App.Version}}", `""`,
		"\n{{.App.Name}}\n", "\n{{.App.Name}} \\- {{.App.Help}}\n",
		"\\fR\n{{.Help}}", "\\fR\n{{.HelpWithEnvar}}",
		".PP\n{{.Help}}", "{{.Help}}",
		flags, notes,
	).Replace(kingpin.ManPageTemplate) + manEnd
}

// SetHelp sets what --help and help print, and completes what is said of flags. Commands must have theirs by then.
func SetHelp(app *kingpin.Application) {
	for _, f := range app.Model().Flags {
		describe(app.GetFlag(f.Name))
	}
	for _, c := range app.Model().Commands {
		clause := app.GetCommand(c.Name)
		for _, f := range c.Flags {
			describe(clause.GetFlag(f.Name))
		}
		for _, a := range c.Args {
			clause.GetArg(a.Name).PlaceHolder(strings.ToUpper(a.Name))
		}
	}
	app.UsageTemplate(helpTemplate).UsageFuncs(template.FuncMap{
		"notes": ReadNotes,
		"note":  func(name string) any { return ReadNotes().Commands[name] },
		// The first example of these is what a beginner needs.
		"firstSteps": func() []string { return []string{"demo", "probe", "detect", "check", "serve"} },
		"commands": func() [][2]string {
			return stats.Map(commandNames(app), func(name string) [2]string { return [2]string{name, app.GetCommand(name).Model().Help} })
		},
	})
}

// describe completes the help of a flag and, without a default to show, the placeholder of its value: its last word.
func describe(f *kingpin.FlagClause) {
	m := f.Model()
	help := strings.TrimSuffix(m.Help, ".") + "."
	if m.IsBoolFlag() && slices.Equal(m.Default, []string{"true"}) {
		help += " On by default."
	}
	f.Help(help)
	if strings.Join(m.Default, "") == "" {
		f.PlaceHolder(cmp.Or(m.PlaceHolder, strings.ToUpper(m.Name[strings.LastIndexAny(m.Name, ".-")+1:])))
	}
}

// Man returns what the command that prints the manual page does.
func Man(app *kingpin.Application) func(io.Writer) error {
	return func(w io.Writer) error {
		var page strings.Builder
		c, err := app.ParseContext([]string{"man"})
		if err == nil {
			err = app.UsageWriter(&page).UsageForContextWithTemplate(c, 2, manTemplate())
		}
		if err == nil {
			// Kingpin escapes nothing: to roff - is a hyphen, which no shell knows, and ' and ` are quotation marks.
			_, err = io.WriteString(w, strings.NewReplacer("\n\n", "\n", `\-`, `\-`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "~", `\(ti`).Replace(page.String()))
		}
		if err != nil {
			return fmt.Errorf("print the manual page: %w", err)
		}
		return nil
	}
}

// Completion adds the argument of a command that prints the completion script of a shell, and returns what the command
// does. The scripts, which releases pack too, are kingpin's own but for fish, which it has none for.
func Completion(c *kingpin.CmdClause) func(io.Writer) error {
	scripts := map[string]string{"bash": "inference_exporter.bash", "zsh": "_inference_exporter", "fish": "inference_exporter.fish"}
	shell := c.Arg("shell", "Shell: bash, zsh or fish.").Required().HintOptions("bash", "zsh", "fish").Enum("bash", "zsh", "fish")
	return func(w io.Writer) error {
		script, err := completion.ReadFile("completion/" + scripts[*shell])
		if err == nil {
			_, err = w.Write(script)
		}
		if err != nil {
			return fmt.Errorf("print the completion script: %w", err)
		}
		return nil
	}
}

// ToComplete returns the arguments by which kingpin completes a line, and reports whether
// args are those of a completion script. Kingpin offers no commands where one of them is
// the default, which gets them as an argument here, and no values after a =.
func ToComplete(app *kingpin.Application, args []string) ([]string, bool) {
	if len(args) == 0 || args[0] != "--completion-bash" {
		return args, false
	}
	app.GetCommand("serve").Arg("command", "").HintOptions(commandNames(app)...).String()
	words := []string{args[0]}
	for _, word := range args[1:] {
		name, value, ok := strings.Cut(word, "=")
		switch {
		case word == "=": // a word of its own in bash
		case ok && strings.HasPrefix(name, "--"):
			words = append(words, name, value)
		default:
			words = append(words, word)
		}
	}
	return words, true
}
