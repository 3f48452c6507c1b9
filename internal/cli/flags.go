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
)

// wholeNumber is the value of a flag that takes an integer. The parser's own also
// takes 1.5, as 1.
type wholeNumber int

// Whole returns the value of a flag that sets n.
func Whole(n *int) kingpin.Value { return (*wholeNumber)(n) }

// Set implements kingpin.Value.
func (w *wholeNumber) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err == nil {
		*w = wholeNumber(n)
	}
	return err
}

// Get implements kingpin.Getter.
func (w *wholeNumber) Get() any { return int(*w) }

// String implements kingpin.Value.
func (w *wholeNumber) String() string { return strconv.Itoa(int(*w)) }

// ValueError returns the error of the first flag whose value cannot be used, by
// its name, which the parser leaves out; nil where all can.
func ValueError(app *kingpin.Application, args []string) error {
	parsed, err := app.ParseContext(args)
	if err != nil || parsed == nil {
		return nil // not that far
	}
	flags := app.Model().Flags
	if parsed.SelectedCommand != nil {
		flags = slices.Concat(flags, parsed.SelectedCommand.Model().Flags)
	}
	given := map[string]bool{}
	for _, e := range parsed.Elements {
		clause, ok := e.Clause.(*kingpin.FlagClause)
		if !ok || e.Value == nil {
			continue
		}
		name := clause.Model().Name
		given[name] = true
		i := slices.IndexFunc(flags, func(f *kingpin.FlagModel) bool { return f.Name == name })
		if i < 0 {
			continue
		}
		if err := flags[i].Value.Set(*e.Value); err != nil {
			return fmt.Errorf("--%s=%s: %w", name, *e.Value, wanted(app, parsed.SelectedCommand, flags[i], err))
		}
	}
	for _, f := range flags {
		value := os.Getenv(f.Envar)
		if f.Envar == "" || value == "" || given[f.Name] {
			continue
		}
		if err := f.Value.Set(value); err != nil {
			return fmt.Errorf("environment variable %s=%s, for --%s: %w", f.Envar, value, f.Name, wanted(app, parsed.SelectedCommand, f, err))
		}
	}
	return nil
}

// wanted says what values a flag takes, where err does not say it better.
func wanted(app *kingpin.Application, command *kingpin.CmdClause, f *kingpin.FlagModel, err error) error {
	options, known, _ := app.FlagCompletion(f.Name, "")
	if command != nil && !known {
		options, _, _ = command.FlagCompletion(f.Name, "")
	}
	if len(options) > 0 {
		return fmt.Errorf("want one of %s", strings.Join(options, ", "))
	}
	getter, ok := f.Value.(kingpin.Getter)
	if !ok {
		return err
	}
	switch getter.Get().(type) {
	case int:
		return errors.New("want a whole number")
	case uint64:
		return errors.New("want a whole number from 0")
	case float64:
		return errors.New("want a number")
	case time.Duration:
		return errors.New("want a duration like 1m30s")
	}
	return err
}
