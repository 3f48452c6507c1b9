package cli

import (
	"strings"
	"text/template"

	"github.com/alecthomas/kingpin/v2"
)

// helpTemplate is what --help and help print: the parser's own has no examples and no text
// of a command but its title.
const helpTemplate = `{{with command .Context.SelectedCommand -}}
usage: {{.Usage $.App.Name}}

{{printf "%s %s" .Help .Text | Wrap 0}}
{{- with argRows .Args}}
Arguments:
{{. | FormatTwoColumns}}
{{- end}}
{{- with flagRows .Flags}}
Flags:
{{. | FormatTwoColumns}}
{{- end}}
{{- else -}}
usage: {{.App.Name}} [COMMAND] [FLAGS]

{{.App.Help | Wrap 0}}
Commands:
{{commandRows | FormatTwoColumns}}
{{- end}}
Flags of every command:
{{flagRows everyFlag | FormatTwoColumns}}
{{- with examples .Context.SelectedCommand}}
Examples:
{{- range .}}
  # {{.Purpose}}
  {{.Line}}
{{- end}}
{{end}}`

// SetHelp sets what --help and help print.
func SetHelp(app *kingpin.Application) {
	command := func(m *kingpin.CmdModel) *Command {
		if m == nil {
			return nil
		}
		return Describe(app).command(m.FullCommand)
	}
	app.UsageTemplate(helpTemplate).UsageFuncs(template.FuncMap{
		"command": command,
		"argRows": func(args []Arg) (rows [][2]string) {
			for _, a := range args {
				rows = append(rows, [2]string{a.Name, a.Help})
			}
			return rows
		},
		"everyFlag": func() []Flag { return Describe(app).Flags },
		"flagRows": func(flags []Flag) (rows [][2]string) {
			for _, f := range flags {
				rows = append(rows, f.row())
			}
			return rows
		},
		"commandRows": func() (rows [][2]string) {
			for _, c := range Describe(app).Commands {
				rows = append(rows, [2]string{c.Name, c.Help})
			}
			return rows
		},
		"examples": func(m *kingpin.CmdModel) []Example {
			if c := command(m); c != nil {
				return c.Examples
			}
			return firstSteps()
		},
	})
}

// firstSteps are the first example of each command that a beginner needs.
func firstSteps() []Example {
	all := commandExamples()
	return []Example{all["demo"][0], all["probe"][0], all["detect"][0], all["check"][0], all["serve"][0]}
}

// row is the flag as help lists it.
func (f Flag) row() [2]string {
	name := "    " + f.Long()
	if f.Short != 0 {
		name = "-" + string(f.Short) + ", " + f.Long()
	}
	words := append([]string{f.Help}, f.Remarks()...)
	if d := f.Default(); d != "" {
		words = append(words, "Default: "+d+".")
	}
	return [2]string{name, strings.Join(words, " ")}
}
