package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kingpin/v2"

	"github.com/inference-exporter/inference_exporter/internal/nearest"
)

// UnknownError returns the error of the word at which the parser stops, an unknown command
// or flag or one word too many, with the nearest that there is; nil for any other error.
func UnknownError(app *kingpin.Application, args []string) error {
	parsed, err := app.ParseContext(args)
	if parsed == nil {
		return nil
	}
	if err == nil {
		return helpError(app, parsed)
	}
	command, word := parsed.SelectedCommand, parsed.Peek()
	named := command != nil && slices.Contains(args, command.FullCommand())
	switch {
	case word.IsFlag() && command != nil:
		return Describe(app).unknownFlag(command.FullCommand(), named, word.String())
	case word.Type == kingpin.TokenArg && !named:
		return Describe(app).unknownCommand(word.Value)
	case word.Type == kingpin.TokenArg:
		return fmt.Errorf("unexpected %q: %s takes no such argument, try %s", word.Value, command.FullCommand(), helpOf(app, command))
	}
	return nil
}

// helpError returns the error of help for what is no command, which the parser's own
// prints without an exit code of its own.
func helpError(app *kingpin.Application, parsed *kingpin.ParseContext) error {
	if parsed.SelectedCommand == nil || parsed.SelectedCommand != app.HelpCommand {
		return nil
	}
	var words []string
	for _, e := range parsed.Elements {
		if _, ok := e.Clause.(*kingpin.ArgClause); ok && e.Value != nil {
			words = append(words, *e.Value)
		}
	}
	switch {
	case len(words) > 1:
		return errors.New("help takes one command")
	case len(words) == 1 && app.GetCommand(words[0]) == nil:
		return Describe(app).unknownCommand(words[0])
	}
	return nil
}

// TryHelp is how to get the help for a command line: that of its command.
func TryHelp(app *kingpin.Application, args []string) string {
	parsed, _ := app.ParseContext(args)
	if parsed == nil {
		return helpOf(app, nil)
	}
	return helpOf(app, parsed.SelectedCommand)
}

// helpOf is how to get the help for a command; nil is for none.
func helpOf(app *kingpin.Application, command *kingpin.CmdClause) string {
	if command == nil {
		return app.Name + " --help"
	}
	return app.Name + " " + command.FullCommand() + " --help"
}

// unknownCommand returns the error of a word where a command should be.
func (l Description) unknownCommand(word string) error {
	known := []string{"help", "--version"}
	for _, c := range l.Commands {
		known = append(known, c.Name)
	}
	if slices.Contains(known, word) {
		return fmt.Errorf("%q follows flags of another command; the command comes first", word)
	}
	if strings.Contains(word, ":") { // a URL, or HOST:PORT
		return fmt.Errorf("%q is no command: to ask it once, %s probe %s; to keep asking, %[2]s --endpoint=%[3]s", word, l.Name, word)
	}
	return unknown(fmt.Sprintf("unknown command %q", word), nearest.Guess(word, known), l.Name+" --help")
}

// unknownFlag returns the error of a flag that a command does not have; nil where it has it.
// named is whether the command was named; without a name it is the default.
func (l Description) unknownFlag(name string, named bool, word string) error {
	command := l.command(name)
	if command == nil || l.Flag(command, word) != nil {
		return nil
	}
	text := fmt.Sprintf("unknown flag %q", word)
	if owners := l.owners(word); len(owners) > 0 && !named {
		return fmt.Errorf("%s before a command: it is one of %s, and follows that word", text, strings.Join(owners, ", "))
	}
	if named {
		text += " of " + name
	}
	var known []string
	for _, f := range l.flagWords(command) {
		known = append(known, f.word)
	}
	return unknown(text, nearest.Guess(word, known), l.Name+" "+name+" --help")
}

// command returns the command of that name; nil for none, and for a hidden one.
func (l Description) command(name string) *Command {
	i := slices.IndexFunc(l.Commands, func(c Command) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &l.Commands[i]
}

// owners returns the commands with a flag of their own.
func (l Description) owners(word string) []string {
	var names []string
	for _, c := range l.Commands {
		if l.Flag(&c, word) != nil {
			names = append(names, c.Name)
		}
	}
	return names
}

// unknown returns an error with what was likely meant or, where that is not known, how to get
// help.
func unknown(text, meant, help string) error {
	if meant == "" {
		return fmt.Errorf("%s, try %s", text, help)
	}
	return fmt.Errorf("%s: did you mean %q?", text, meant)
}
