// Package cli describes the command line, which it reads from the parser's model: for
// the manual page, docs/commands.md, the completion of shells and errors of flags.
package cli

import (
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kingpin/v2"
)

// Description describes the command line for readers and for completion. It is
// read from the parser's own model, so that it says nothing else. Its fields
// have capitals for the template of docs/commands.md.
type Description struct {
	Name, Help string
	Flags      []Flag // of every command
	Commands   []Command
}

// Command describes one command.
type Command struct {
	Name, Help string
	IsDefault  bool
	Args       []Arg
	Flags      []Flag
	Text       string
	Examples   []Example
}

// Arg describes one argument of a command.
type Arg struct {
	Name, Help string
	Required   bool
	Options    []string // all possible values, where there is such a list
}

// Flag describes one flag.
type Flag struct {
	Name, Help string
	Short      rune     // 0 for none
	Value      string   // placeholder of the value; empty for a flag that is on or off
	Options    []string // all possible values, where there is such a list
	Defaults   []string
	Variable   string // environment variable that sets it too
	Negatable  bool   // on by default: --no-NAME turns it off
	Required   bool
	Repeatable bool
}

// Describe returns what is to be known of the command line of app. Hidden
// commands and flags are left out.
func Describe(app *kingpin.Application) Description {
	m := app.Model()
	all := Description{Name: m.Name, Help: m.Help, Flags: describeFlags(m.Flags, app.FlagCompletion)}
	texts, examples := commandTexts(), commandExamples()
	for _, c := range m.Commands {
		if c.Hidden || c.Name == "help" {
			continue
		}
		clause := app.GetCommand(c.Name)
		text := Command{
			Name: c.Name, Help: c.Help, IsDefault: c.Default, Text: texts[c.Name], Examples: examples[c.Name],
			Flags: describeFlags(c.Flags, clause.FlagCompletion),
		}
		for _, a := range c.Args {
			text.Args = append(text.Args, Arg{
				Name: strings.ToUpper(a.Name), Help: a.Help, Required: a.Required,
				Options: clause.CmdCompletion(&kingpin.ParseContext{}), // of the first; a second has the same
			})
		}
		all.Commands = append(all.Commands, text)
	}
	return all
}

// describeFlags describes flags; values returns the possible values of one.
func describeFlags(flags []*kingpin.FlagModel, values func(name, begun string) ([]string, bool, bool)) []Flag {
	var all []Flag
	for _, f := range flags {
		if f.Hidden {
			continue
		}
		t := Flag{
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

// placeholder returns the placeholder of the value of a flag: the last word of its
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
func (c Command) Usage(program string) string {
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

// Long is the flag as one writes it, with the placeholder of its value.
func (f Flag) Long() string {
	switch {
	case f.Value != "":
		return "--" + f.Name + "=" + f.Value
	case f.Negatable:
		return "--[no-]" + f.Name
	}
	return "--" + f.Name
}

// Default is the default of the flag; empty for none.
func (f Flag) Default() string {
	switch {
	case f.Negatable:
		return "on"
	case f.Value == "":
		return ""
	}
	return strings.Join(f.Defaults, ", ")
}

// Remarks are sentences on the flag beside its help and its default.
func (f Flag) Remarks() []string {
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

// Exit codes.
const (
	ExitOK      = 0
	ExitFailure = 1 // failed while running
	ExitUsage   = 2 // flags or configuration cannot be used

	// ExitUndecided is that of a comparison without a verdict: a gate blocks by
	// ExitFailure alone.
	ExitUndecided = 2
)

// Meaning says what a code or a signal means.
type Meaning struct{ Of, Meaning string }

// ExitCodes are the exit codes of every command.
func ExitCodes() []Meaning {
	return []Meaning{
		{strconv.Itoa(ExitOK), "Done. The daemon was asked to stop and did."},
		{strconv.Itoa(ExitFailure), "It failed while running: a port is taken, a probe did not succeed, nothing was recognised at the URL, a candidate is worse than its baseline, something still hung 5 seconds after the signal to stop."},
		{strconv.Itoa(ExitUsage), "Flags, or a configuration, that cannot be used. Every problem is a line on standard error, with its file, line and key. Also a comparison that ended without a verdict."},
	}
}

// Signals are what the daemon does on each signal.
func Signals() []Meaning {
	return []Meaning{
		{"SIGHUP", "Read the configuration file again. A file that cannot be used leaves the old configuration active, and the metrics report it."},
		{"SIGINT, SIGTERM", "Stop: end probes in flight as canceled, and leave within 5 seconds. What still hangs then ends with the process, a line on standard error says so, and the exit code is 1."},
	}
}

// commandTexts say of each command what it does, prints and returns, for who has
// read its help.
func commandTexts() map[string]string {
	return map[string]string{
		"serve": "Runs until SIGINT or SIGTERM, and then ends within 5 seconds. It needs --config.file or --endpoint, unless it reads GPUs alone.",
		"check": "Exit code 0 for a good file, with what its probes take in a day: tokens and, where tokens have a price, money; and a note on each budget that is used up before. " +
			"Exit code 2 for a bad one, with a line for each problem. " +
			"Asks no endpoint anything.",
		"demo": "Needs no configuration, no endpoint and no GPU: a healthy, a saturated and a failing server are simulated, one that is asked in bursts, one that always answers, often wrongly, and one that embeds texts.",
		"probe": "TARGET is a URL, or with --config.file the name of an endpoint in it. Without a scheme, HOST:PORT is asked by HTTP, or by HTTPS if only that is spoken there. Prints where the time went and, after a failure, what to " +
			"check next. Of the secrets in the file it needs those of TARGET alone. Exit code 1 unless every probe succeeded. " +
			"With --baseline it compares with figures that --save-baseline stored, and has the exit codes of compare.",
		"detect": "Asks without a prompt, and follows no redirect. Prints a configuration with the reasons as comments, and where to read the key, not the key itself. " +
			"Exit code 1 where nothing is recognised.",
		"compare": "BASELINE and CANDIDATE are URLs, or with --config.file names of endpoints in it. Each pair of probes asks both, in an order that is drawn. " +
			"After each pair a sequential test of TTFT, TPOT, failures and wrong answers looks whether the candidate is worse than the baseline by more than a margin. " +
			"Exit code 0 where it is not, 1 where it is, 2 where the pairs did not suffice, or could not be probed.",
		"explain": "TARGET is the name of an endpoint, of which the running exporter at --server is asked, or a URL, which is probed a few times and whose servers' page " +
			"is read where there is one. With --config.file an endpoint of the file is probed too, with its key. Exit code 0 whatever the cause is, 1 where nothing could be asked.",
		"modules": "Lists the built-in modules and, with --config.file, those of the file, of which it needs no secret.",
		"rules":   "Needs no secret of the file. Prints YAML for rule_files of Prometheus. What the rules cannot detect with a configuration is listed at the top, as comments.",
		"simulate": "Queueing, batching and a prefix cache as an engine has them, and every protocol. What it did, to the nanosecond, is on " +
			"/simulator/state. Runs until SIGINT or SIGTERM.",
		"man":        "The page is the same for every build of a version.",
		"completion": "The script asks the program itself for what may come next, so it must be found in PATH.",
	}
}

// Example is a command line that works, and what it is for.
type Example struct{ Line, Purpose string }

// commandExamples are examples of each command.
func commandExamples() map[string][]Example {
	return map[string][]Example{
		"serve": {
			{"inference_exporter --config.file=endpoints.yml", "What the file says, until it is stopped."},
			{"inference_exporter --endpoint=http://vllm.internal:8000", "One endpoint with all defaults, without a file."},
			{"inference_exporter --no-collector.probe --no-collector.server --collector.gpu", "The GPUs of this machine alone."},
		},
		"check": {
			{"inference_exporter check endpoints.yml", "Before a restart."},
			{"inference_exporter check --no-secrets endpoints.yml", "In the CI of the file, which has no keys."},
			{`inference_exporter check endpoints.yml && kill -HUP "$(pidof inference_exporter)"`, "A reload, if the file is good."},
		},
		"demo": {
			{"inference_exporter demo", "The status page is then at http://127.0.0.1:10115."},
			{"inference_exporter demo --web.listen-address=127.0.0.1:9000", "On another port."},
		},
		"probe": {
			{"inference_exporter probe http://vllm.internal:8000", "One probe, with its phases and its tokens on a time line."},
			{"inference_exporter probe --config.file=endpoints.yml --module=canary llama-prod", "As the daemon would, with the endpoint's keys and the module's question."},
			{"inference_exporter probe --key-env=OPENAI_API_KEY --model=gpt-5-mini https://api.openai.com", "A hosted service, with the key in the environment."},
			{"inference_exporter probe -n 20 -o json http://vllm.internal:8000", "Twenty probes and a summary, a line of JSON each."},
			{"inference_exporter probe -n 100 -c 10 http://vllm.internal:8000", "A hundred probes, ten at once: how it is under load."},
			{"inference_exporter probe -n 200 --save-baseline=llama.json http://vllm.internal:8000", "Two hundred probes, whose figures are kept."},
			{"inference_exporter probe --baseline=llama.json http://vllm.internal:8000", "Compares with them after an upgrade."},
			{"inference_exporter probe --prompt=Hello http://vllm.internal:8000", "A question of your own, with the answer."},
		},
		"compare": {
			{"inference_exporter compare http://vllm-stable:8000 http://vllm-canary:8000", "Whether the new version is slower, or wrong more often."},
			{"inference_exporter compare --config.file=endpoints.yml --module=canary -o junit stable canary > compare.xml", "In CI, with the questions of a module and a report that CI systems show."},
		},
		"detect": {
			{"inference_exporter detect http://vllm.internal:8000 > endpoints.yml", "A configuration to start from."},
			{"inference_exporter detect --key-env=OPENAI_API_KEY https://api.openai.com", "A server that lists its models to who has a key."},
		},
		"explain": {
			{"inference_exporter explain llama-prod", "What the exporter on this machine knows of its endpoint."},
			{"inference_exporter explain --server=http://exporter.internal:10115 llama-prod", "The same from elsewhere."},
			{"inference_exporter explain --server=https://me@exporter.internal:10115 --key-env=EXPORTER_PASSWORD llama-prod", "From one that wants a password."},
			{"inference_exporter explain http://vllm.internal:8000", "Five probes from here and the server's page, without a running exporter."},
		},
		"modules": {
			{"inference_exporter modules", "What the built-in ones ask, and how often."},
			{"inference_exporter modules --config.file=endpoints.yml", "Those of a file too."},
		},
		"rules": {
			{"inference_exporter rules --config.file=endpoints.yml > inference.rules.yml", "Rules with the labels and the guards that fit the file's intervals."},
			{"inference_exporter rules --format=alertmanager > alertmanager.yml", "Routes that notify once of one incident."},
			{"inference_exporter rules --format=sloth --config.file=endpoints.yml > inference.slos.yml", "The objectives of the file, for Sloth."},
		},
		"simulate": {
			{"inference_exporter simulate --engine=sglang --slots=4", "A small SGLang, to see saturation."},
			{"inference_exporter simulate --fault=status_503 --fault-ratio=0.1", "A tenth of the requests is refused."},
		},
		"man": {
			{"inference_exporter man | man -l -", "Read it without installing it."},
		},
		"completion": {
			{"inference_exporter completion bash > /etc/bash_completion.d/inference_exporter", "For every user, in the next shell."},
			{"inference_exporter completion zsh > ~/.zfunc/_inference_exporter", "A directory of fpath, set before compinit."},
			{"inference_exporter completion fish > ~/.config/fish/completions/inference_exporter.fish", "In the next shell."},
		},
	}
}
