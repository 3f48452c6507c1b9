package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/inference-exporter/inference_exporter/config"
)

// number is what the value of a flag may be within bounds.
type number interface {
	int | uint64 | float64 | time.Duration
}

// bounded is the value of a flag within bounds. Kingpin's own have none, and its integers take 1.5 as 1.
type bounded[T number] struct {
	to   *T
	want string // the bounds in words
	fits func(T) bool
}

// AtLeast returns the value of a flag that sets a number or a duration of at least so much.
func AtLeast[T number](to *T, least T) kingpin.Value {
	return &bounded[T]{to, fmt.Sprintf("at least %v", least), func(v T) bool { return v >= least }}
}

// Above returns the value of a flag that sets a number or a duration of more than so much.
func Above[T number](to *T, bound T) kingpin.Value {
	return &bounded[T]{to, fmt.Sprintf("more than %v", bound), func(v T) bool { return v > bound }}
}

// Between returns the value of a flag that sets a number or a duration from least to most.
func Between[T number](to *T, least, most T) kingpin.Value {
	return &bounded[T]{to, fmt.Sprintf("%v to %v", least, most), func(v T) bool { return v >= least && v <= most }}
}

func (b *bounded[T]) Set(s string) (err error) {
	var v T
	want := ""
	switch to := any(&v).(type) {
	case *int:
		want = "a whole number"
		*to, err = strconv.Atoi(s)
	case *uint64:
		want = "a whole number from 0"
		*to, err = strconv.ParseUint(s, 10, 64)
	case *float64:
		want = "a number"
		*to, err = strconv.ParseFloat(s, 64)
	case *time.Duration:
		want = "a duration like 1m30s"
		*to, err = time.ParseDuration(s)
	}
	switch {
	case err != nil:
		return errors.New("want " + want)
	case !b.fits(v):
		return errors.New("want " + b.want)
	}
	*b.to = v
	return nil
}

func (b *bounded[T]) String() string { return fmt.Sprint(*b.to) }

// ValueError returns the error of the first value that cannot be used, with the name of its
// flag, argument or variable, which kingpin leaves out; nil where all can.
func ValueError(app *kingpin.Application, args []string) error {
	parsed, err := app.ParseContext(args)
	if err != nil || parsed == nil {
		return nil // not that far
	}
	given := map[string]bool{}
	for _, e := range parsed.Elements {
		switch clause := e.Clause.(type) {
		case *kingpin.FlagClause:
			f := clause.Model()
			given[f.Name] = true
			if err := set(f.Value, e.Value, app, parsed.SelectedCommand, f.Name); err != nil {
				return fmt.Errorf("--%s=%s: %w", f.Name, *e.Value, err)
			}
		case *kingpin.ArgClause:
			a := clause.Model()
			if err := set(a.Value, e.Value, app, parsed.SelectedCommand, ""); err != nil {
				return fmt.Errorf("%s %q: %w", a.PlaceHolder, *e.Value, err)
			}
		}
	}
	for _, f := range flagsOf(app, parsed.SelectedCommand) {
		value := os.Getenv(f.Envar)
		if f.Envar == "" || value == "" || given[f.Name] {
			continue
		}
		if err := set(f.Value, &value, app, parsed.SelectedCommand, f.Name); err != nil {
			return fmt.Errorf("environment variable %s=%s, for --%s: %w", f.Envar, value, f.Name, err)
		}
	}
	return nil
}

// maxListed is how many values a message lists; of more it lists the nearest.
const maxListed = 12

// set sets the value of a flag, or of an argument, "" here. Its error lists the values, where kingpin's does not.
func set(v kingpin.Value, text *string, app *kingpin.Application, command *kingpin.CmdClause, flag string) error {
	if text == nil {
		return nil
	}
	err := v.Set(*text)
	if err == nil {
		return nil
	}
	options, known, _ := app.FlagCompletion(flag, "")
	if command != nil && flag == "" {
		options = command.CmdCompletion(&kingpin.ParseContext{})
	} else if command != nil && !known {
		options, _, _ = command.FlagCompletion(flag, "")
	}
	switch n := len(options); {
	case n > maxListed:
		return fmt.Errorf("unknown; the nearest of %d are %s", n, strings.Join(config.NearestNames(*text, options, 3), ", "))
	case n > 0:
		return fmt.Errorf("want one of %s", strings.Join(options, ", "))
	}
	return err
}

// flagsOf returns the flags that a command takes; nil is for none.
func flagsOf(app *kingpin.Application, command *kingpin.CmdClause) []*kingpin.FlagModel {
	flags := app.Model().Flags
	if command != nil {
		flags = slices.Concat(command.Model().Flags, flags)
	}
	return flags
}

// UnknownError returns the error of the word at which kingpin stops, an unknown command
// or flag or one word too many, with the nearest that there is; nil for any other error.
func UnknownError(app *kingpin.Application, args []string) error {
	parsed, err := app.ParseContext(args)
	if parsed == nil {
		return nil
	}
	command := parsed.SelectedCommand
	if err == nil {
		return helpError(app, parsed)
	}
	word, named := parsed.Peek(), command != nil && slices.Contains(args, command.FullCommand())
	switch {
	case word.IsFlag() && command != nil:
		return unknownFlag(app, command, named, word.String())
	case word.Type == kingpin.TokenArg && !named:
		return unknownCommand(app, word.Value)
	case word.Type == kingpin.TokenArg:
		return fmt.Errorf("unexpected %q: %s takes no such argument, try %s", word.Value, command.FullCommand(), TryHelp(app, args))
	}
	return nil
}

// helpError returns the error of help for what is no command, which kingpin prints without an exit code of its own.
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
		return unknownCommand(app, words[0])
	}
	return nil
}

// TryHelp returns how to get the help for a command line: that of its command.
func TryHelp(app *kingpin.Application, args []string) string {
	if parsed, _ := app.ParseContext(args); parsed != nil && parsed.SelectedCommand != nil {
		return app.Name + " " + parsed.SelectedCommand.FullCommand() + " --help"
	}
	return app.Name + " --help"
}

func unknownCommand(app *kingpin.Application, word string) error {
	known := append(commandNames(app), "--version")
	switch {
	case slices.Contains(known, word):
		return fmt.Errorf("%q follows flags of another command; the command comes first", word)
	case strings.Contains(word, ":"): // a URL, or HOST:PORT
		return fmt.Errorf("%q is no command: to ask it once, %s probe %s; to keep asking, %[2]s --endpoint=%[3]s", word, app.Name, word)
	}
	return unknown(fmt.Sprintf("unknown command %q", word), word, known, app.Name+" --help")
}

// commandNames returns the names of the commands that are shown.
func commandNames(app *kingpin.Application) (names []string) {
	for _, c := range app.Model().Commands {
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	return names
}

// unknownFlag returns the error of a flag that a command does not have; nil where it has it.
// named is whether the command was named; without a name it is the default.
func unknownFlag(app *kingpin.Application, command *kingpin.CmdClause, named bool, word string) error {
	known := flagWords(flagsOf(app, command))
	if slices.Contains(known, word) {
		return nil
	}
	text := fmt.Sprintf("unknown flag %q", word)
	var owners []string
	for _, name := range commandNames(app) {
		if slices.Contains(flagWords(app.GetCommand(name).Model().Flags), word) {
			owners = append(owners, name)
		}
	}
	if len(owners) > 0 && !named {
		return fmt.Errorf("%s before a command: it is one of %s, and follows that word", text, strings.Join(owners, ", "))
	}
	if named {
		text += " of " + command.FullCommand()
	}
	long := slices.DeleteFunc(known, func(flag string) bool { return len(flag) == len("-x") })
	return unknown(text, word, long, app.Name+" "+command.FullCommand()+" --help")
}

func flagWords(flags []*kingpin.FlagModel) (words []string) {
	for _, f := range flags {
		if f.Hidden {
			continue
		}
		words = append(words, "--"+f.Name)
		if f.IsBoolFlag() {
			words = append(words, "--no-"+f.Name)
		}
		if f.Short != 0 {
			words = append(words, "-"+string(f.Short))
		}
	}
	return words
}

// unknown returns the error of an unknown word, with what was likely meant or, where that is unknown, how to get help.
func unknown(text, word string, known []string, help string) error {
	if meant := config.Guess(word, known); meant != "" {
		return fmt.Errorf("%s: did you mean %q?", text, meant)
	}
	return fmt.Errorf("%s, try %s", text, help)
}
