package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/inference-exporter/inference_exporter/internal/nearest"
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

// ValueError returns the error of the first value that cannot be used, with the name of its
// flag, argument or variable, which the parser leaves out; nil where all can.
func ValueError(app *kingpin.Application, args []string) error {
	parsed, err := app.ParseContext(args)
	if err != nil || parsed == nil {
		return nil // not that far
	}
	given := map[*kingpin.FlagClause]bool{}
	for _, e := range parsed.Elements {
		if e.Value == nil {
			continue
		}
		switch clause := e.Clause.(type) {
		case *kingpin.FlagClause:
			given[clause] = true
			f := clause.Model()
			if err := f.Value.Set(*e.Value); err != nil {
				return fmt.Errorf("--%s=%s: %w", f.Name, *e.Value, wanted(f.Value, *e.Value, flagOptions(app, parsed.SelectedCommand, f.Name), err))
			}
		case *kingpin.ArgClause:
			a := clause.Model()
			if err := a.Value.Set(*e.Value); err != nil {
				return fmt.Errorf("%s %q: %w", strings.ToUpper(a.Name), *e.Value, wanted(a.Value, *e.Value, parsed.SelectedCommand.CmdCompletion(&kingpin.ParseContext{}), err))
			}
		}
	}
	return variableError(app, parsed.SelectedCommand, given)
}

// variableError returns the error of the first environment variable whose value its flag,
// which is not given, cannot take.
func variableError(app *kingpin.Application, command *kingpin.CmdClause, given map[*kingpin.FlagClause]bool) error {
	flags, of := app.Model().Flags, app.GetFlag
	if command != nil {
		flags = slices.Concat(flags, command.Model().Flags)
		of = func(name string) *kingpin.FlagClause { return cmp.Or(command.GetFlag(name), app.GetFlag(name)) }
	}
	for _, f := range flags {
		value := os.Getenv(f.Envar)
		if f.Envar == "" || value == "" || given[of(f.Name)] {
			continue
		}
		if err := f.Value.Set(value); err != nil {
			return fmt.Errorf("environment variable %s=%s, for --%s: %w", f.Envar, value, f.Name, wanted(f.Value, value, flagOptions(app, command, f.Name), err))
		}
	}
	return nil
}

// flagOptions returns all values that a flag takes, where there is such a list.
func flagOptions(app *kingpin.Application, command *kingpin.CmdClause, name string) []string {
	options, known, _ := app.FlagCompletion(name, "")
	if command != nil && !known {
		options, _, _ = command.FlagCompletion(name, "")
	}
	return options
}

// maxListed is how many values a message lists; of more it lists the nearest.
const maxListed = 12

// wanted says what values are taken instead of a wrong one, where err does not say it better.
func wanted(v kingpin.Value, wrong string, options []string, err error) error {
	switch n := len(options); {
	case n > maxListed:
		return fmt.Errorf("unknown; the nearest of %d are %s", n, strings.Join(nearest.Names(wrong, options, 3), ", "))
	case n > 0:
		return fmt.Errorf("want one of %s", strings.Join(options, ", "))
	}
	getter, ok := v.(kingpin.Getter)
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
