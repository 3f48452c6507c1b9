package app

import (
	"slices"
	"strings"

	"github.com/alecthomas/kingpin/v2"
)

// commandLine describes the command line for readers and for completion. It is
// read from the parser's own model, so that it says nothing else. Its fields
// have capitals for the template of docs/commands.md.
type commandLine struct {
	Name, Help string
	Flags      []flagText // of every command
	Commands   []commandText
}

// commandText describes one command.
type commandText struct {
	Name, Help string
	IsDefault  bool
	Args       []argText
	Flags      []flagText
	Text       string
	Examples   []commandExample
}

// argText describes one argument of a command.
type argText struct {
	Name, Help string
	Required   bool
	Options    []string // all possible values, where there is such a list
}

// flagText describes one flag.
type flagText struct {
	Name, Help string
	Short      rune     // 0 for none
	Value      string   // what stands for the value; empty for a flag that is on or off
	Options    []string // all possible values, where there is such a list
	Defaults   []string
	Variable   string // environment variable that sets it too
	Negatable  bool   // on by default: --no-NAME turns it off
	Required   bool
	Repeatable bool
}

// describe returns what is to be known of the command line of app. Hidden
// commands and flags are left out.
func describe(app *kingpin.Application) commandLine {
	m := app.Model()
	all := commandLine{Name: m.Name, Help: m.Help, Flags: describeFlags(m.Flags, app.FlagCompletion)}
	texts, examples := commandTexts(), commandExamples()
	for _, c := range m.Commands {
		if c.Hidden || c.Name == "help" {
			continue
		}
		clause := app.GetCommand(c.Name)
		text := commandText{
			Name: c.Name, Help: c.Help, IsDefault: c.Default, Text: texts[c.Name], Examples: examples[c.Name],
			Flags: describeFlags(c.Flags, clause.FlagCompletion),
		}
		for i, a := range c.Args {
			arg := argText{Name: strings.ToUpper(a.Name), Help: a.Help, Required: a.Required}
			if i == 0 { // the parser tells the values of the argument that comes next
				arg.Options = clause.CmdCompletion(&kingpin.ParseContext{})
			}
			text.Args = append(text.Args, arg)
		}
		all.Commands = append(all.Commands, text)
	}
	return all
}

// describeFlags describes flags; values returns the possible values of one.
func describeFlags(flags []*kingpin.FlagModel, values func(name, begun string) ([]string, bool, bool)) []flagText {
	var all []flagText
	for _, f := range flags {
		if f.Hidden {
			continue
		}
		t := flagText{
			Name: f.Name, Help: sentence(f.Help), Short: f.Short, Variable: f.Envar, Required: f.Required,
			Negatable: f.IsBoolFlag() && slices.Equal(f.Default, []string{"true"}),
		}
		if cumulative, ok := f.Value.(interface{ IsCumulative() bool }); ok {
			t.Repeatable = cumulative.IsCumulative()
		}
		if !f.IsBoolFlag() {
			t.Value = placeholder(f)
			t.Options, _, _ = values(f.Name, "")
			t.Defaults = slices.DeleteFunc(slices.Clone(f.Default), func(d string) bool { return d == "" })
		}
		all = append(all, t)
	}
	return all
}

// placeholder is what stands for the value of a flag: the last word of its
// name, unless the flag has a better one.
func placeholder(f *kingpin.FlagModel) string {
	if f.PlaceHolder != "" {
		return f.PlaceHolder
	}
	return strings.ToUpper(f.Name[strings.LastIndexAny(f.Name, ".-")+1:])
}

// sentence ends a help text with a full stop; those of other modules lack it.
func sentence(help string) string {
	if help == "" || strings.HasSuffix(help, ".") {
		return help
	}
	return help + "."
}

// Usage is how the command is called.
func (c commandText) Usage(program string) string {
	words := []string{program, c.Name}
	if c.IsDefault {
		words[1] = "[" + c.Name + "]"
	}
	optional := false
	for _, f := range c.Flags {
		if f.Required {
			words = append(words, f.Long())
		}
		optional = optional || !f.Required
	}
	if optional {
		words = append(words, "[FLAGS]")
	}
	for _, a := range c.Args {
		if a.Required {
			words = append(words, a.Name)
		} else {
			words = append(words, "["+a.Name+"]")
		}
	}
	return strings.Join(words, " ")
}

// Long is the flag as one writes it, with what stands for its value.
func (f flagText) Long() string {
	switch {
	case f.Value != "":
		return "--" + f.Name + "=" + f.Value
	case f.Negatable:
		return "--[no-]" + f.Name
	}
	return "--" + f.Name
}

// Default is the default of the flag; empty for none.
func (f flagText) Default() string {
	switch {
	case f.Negatable:
		return "on"
	case f.Value == "":
		return ""
	}
	return strings.Join(f.Defaults, ", ")
}

// Remarks are sentences on the flag beside its help and its default.
func (f flagText) Remarks() []string {
	var all []string
	if f.Repeatable && !strings.Contains(strings.ToLower(f.Help), "repeatable") {
		all = append(all, "Repeatable.")
	}
	if f.Required {
		all = append(all, "Required.")
	}
	if f.Variable != "" {
		all = append(all, "Environment variable: "+f.Variable+".")
	}
	return all
}
