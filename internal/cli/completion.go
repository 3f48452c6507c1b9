package cli

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kingpin/v2"
)

// The scripts are files, so that releases can pack them as they are.
var (
	//go:embed completion/inference_exporter.bash
	bashCompletion string
	//go:embed completion/_inference_exporter
	zshCompletion string
	//go:embed completion/inference_exporter.fish
	fishCompletion string
)

// Completion adds the argument of a command that prints the completion script of a
// shell, and returns what the command does.
func Completion(c *kingpin.CmdClause) func(io.Writer) error {
	shell := c.Arg("shell", "Shell: bash, zsh or fish.").Required().
		HintOptions("bash", "zsh", "fish").Enum("bash", "zsh", "fish")
	return func(w io.Writer) error {
		script := map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}[*shell]
		if _, err := io.WriteString(w, script); err != nil {
			return fmt.Errorf("print the script: %w", err)
		}
		return nil
	}
}

// Complete adds the argument of the command that answers the scripts, and returns
// what the command does: it prints what may follow the words so far, a line each,
// with a tab and its meaning where it has one. Kingpin answers --completion-bash with
// much the same, but with a default command it never offers the names of commands, it
// has no meanings, and it has scripts of bash and zsh alone.
func Complete(app *kingpin.Application, c *kingpin.CmdClause) func(io.Writer) error {
	words := c.Hidden().Arg("word", "Words so far, without the program.").Strings()
	return func(w io.Writer) error {
		for _, s := range Describe(app).suggestions(*words) {
			if _, err := fmt.Fprintln(w, strings.TrimSuffix(s.word+"\t"+s.meaning, "\t")); err != nil {
				return fmt.Errorf("print the suggestions: %w", err)
			}
		}
		return nil
	}
}

// suggestion is a word that may come next.
type suggestion struct{ word, meaning string }

// suggestions returns what may replace the last word, which is incomplete or
// empty. None means that any word may, such as the name of a file.
func (l Description) suggestions(words []string) []suggestion {
	if len(words) == 0 {
		return nil
	}
	before, begun := words[:len(words)-1], words[len(words)-1]
	command, args, open := l.follow(before)
	var all []suggestion
	name, _, hasValue := strings.Cut(begun, "=")
	switch {
	case open != nil:
		all = optionsOf(open.Options, "")
	case strings.HasPrefix(begun, "-") && hasValue:
		if f := l.Flag(command, name); f != nil {
			all = optionsOf(f.Options, name+"=")
		}
	case strings.HasPrefix(begun, "-"):
		all = l.flagWords(command)
	case command == nil:
		for _, c := range l.Commands {
			all = append(all, suggestion{c.Name, c.Help})
		}
	case args < len(command.Args):
		all = optionsOf(command.Args[args].Options, "")
	}
	return slices.DeleteFunc(all, func(s suggestion) bool { return !strings.HasPrefix(s.word, begun) })
}

// follow reads the words that are complete. It returns the command, or nil
// where that is still open, how many arguments it has got, and the flag that
// waits for its value, if one does.
func (l Description) follow(words []string) (command *Command, args int, open *Flag) {
	for _, word := range words {
		switch {
		case open != nil:
			open = nil
		case strings.HasPrefix(word, "-"):
			name, _, hasValue := strings.Cut(word, "=")
			f := l.Flag(command, name)
			if command == nil && f != nil && !slices.ContainsFunc(l.Flags, func(of Flag) bool { return of.Name == f.Name }) {
				command = l.defaultCommand() // a flag of its own decides for it
			}
			if f != nil && f.Value != "" && !hasValue {
				open = f
			}
		case command == nil:
			if command = l.command(word); command == nil {
				return &Command{}, 0, nil // an unknown one, of which nothing is known
			}
		default:
			args++
		}
	}
	return command, args, open
}

// defaultCommand returns the command that runs where none is named.
func (l Description) defaultCommand() *Command {
	return &l.Commands[slices.IndexFunc(l.Commands, func(c Command) bool { return c.IsDefault })]
}

// flagsOf returns the flags that a command accepts: without one, those
// of the default command.
func (l Description) flagsOf(command *Command) []Flag {
	if command == nil {
		command = l.defaultCommand()
	}
	return slices.Concat(command.Flags, l.Flags)
}

// Flag returns the flag of which a word is the whole name, or nil.
func (l Description) Flag(command *Command, word string) *Flag {
	for _, f := range l.flagsOf(command) {
		if word == "--"+f.Name || f.Negatable && word == "--no-"+f.Name || f.Short != 0 && word == "-"+string(f.Short) {
			return &f
		}
	}
	return nil
}

// flagWords suggests the flags that a command accepts.
func (l Description) flagWords(command *Command) []suggestion {
	var all []suggestion
	for _, f := range l.flagsOf(command) {
		all = append(all, suggestion{"--" + f.Name, f.Help})
		if f.Negatable {
			all = append(all, suggestion{"--no-" + f.Name, "Off: " + f.Help})
		}
	}
	return all
}

// optionsOf suggests the values of a flag or an argument.
func optionsOf(options []string, prefix string) []suggestion {
	var all []suggestion
	for _, o := range options {
		all = append(all, suggestion{word: prefix + o})
	}
	return all
}
