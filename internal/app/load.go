package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	probereport "github.com/inference-exporter/inference_exporter/internal/report"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload/loadtest"
)

type loadCommand struct {
	request
	target, output *string
	withoutPage    *bool
	keys           []loadKey
}

// loadKey is a flag that sets a key of the module, in a form of YAML.
type loadKey struct {
	key, form string
	value     *string
}

func newLoadCommand(c *kingpin.CmdClause) *loadCommand {
	l := new(loadCommand)
	l.target = c.Arg("target", "URL or HOST:PORT, or name of an endpoint in --config.file.").Required().HintAction(l.endpointNames).String()
	for _, f := range []struct{ name, value, key, form, help string }{
		{"users", "LIST", "load.users", "[%s]", "Numbers of users at once, such as 10,50,100, one level after the other: each user sends a request, reads the answer, and sends the next. Default: the levels of the module, else 1,4,16."},
		{"rate", "LIST", "load.requests_per_second", "[%s]", "Requests that start per second, whether or not earlier ones have ended, instead of users."},
		{"trace", "FILE", "load.trace_file", "%q", "File with recorded requests, when each arrived and the lengths of its prompt and its answer, instead of users."},
		{"speed", "LIST", "load.trace_speeds", "[%s]", "How many times as fast as recorded the requests of --trace arrive."},
		{"think", "DURATION", "load.think_time", "%s", "How long a user thinks between an answer and the next request on average."},
		{"for", "DURATION", "load.duration", "%s", "How long each level takes. Default: as long as the module says, else 20s."},
		{"target", "LEVEL", "load.target", "%s", "Level at which the objectives are to be met. Default: that of the module, else the highest."},
		{"max-tokens", "NUMBER", "load.max_tokens", "%s", "Tokens that the run spends at most, prompts and answers together."},
		{"max-usd", "NUMBER", "load.max_usd", "%s", "US dollars that the run spends at most, where tokens have a price."},
		{"input-tokens", "NUMBER", "input_tokens", "%s", "Length of the prompts in tokens instead of the module's, or a mix such as '{256: 3, 2048: 1}'."},
		{"output-tokens", "NUMBER", "output_tokens", "%s", "Length of the answers in the same way."},
		{"slo.ttft", "DURATION", "slo.ttft", "%s", "Longest TTFT of a good request. With --slo.tpot it takes the place of all objectives of the module and the endpoint."},
		{"slo.tpot", "DURATION", "slo.tpot", "%s", "Longest time per output token of a good request."},
	} {
		l.keys = append(l.keys, loadKey{f.key, f.form, c.Flag(f.name, f.help).PlaceHolder(f.value).String()})
	}
	l.withoutPage = c.Flag("without-page", "Put load on the endpoint although no metrics page of its servers shows whether users wait. The run then ends when its own requests become slow.").Bool()
	l.request.addTo(c)
	l.output = c.Flag("output", "Format of the output: text or json.").Short('o').Default("text").Enum("text", "json")
	return l
}

func (c *loadCommand) run(ctx context.Context, env environment) error {
	t, err := c.resolve(ctx, *c.target, env)
	if err != nil {
		return err
	}
	m, err := t.Endpoint.LoadWith(t.Module, t.Name, c.settings(t.Load))
	if err != nil {
		return usageError{err}
	}
	t = t.With(m)
	c.access.warn(env.Stderr)
	fmt.Fprintf(env.Stderr, "inference_exporter: %s for %s each, prompts of %s and answers of up to %s tokens, which cost what tokens cost there; Ctrl-C ends it at once\n",
		t.Load.Kind().Words(t.Load.Levels()...), t.Load.Duration, t.InputTokens.Words(), t.OutputTokens.Words())
	terminal := isTerminal(env.Stderr)
	f, err := fleet.RunLoad(ctx, t, c.engines, showLoad(env.Stderr, t.Load.Kind(), terminal))
	if terminal {
		fmt.Fprint(env.Stderr, "\r\x1b[K")
	}
	if err != nil {
		return usageError{err}
	}
	f.Text = strings.ReplaceAll(f.Text, "load.without_page", "--without-page")
	err = printAs(*c.output,
		func() error {
			return probereport.Load(env.Stdout, t.Report(), f, probereport.Options{Color: wantsColor(env.Stdout)})
		},
		func() error { return probereport.Encode(env.Stdout, f) },
	)
	return cmp.Or(err, loadVerdict(f))
}

// settings returns the keys of the flags. A module without load has levels that suffice to see whether users slow it down.
func (c *loadCommand) settings(load *config.LoadTest) map[string]string {
	set := map[string]string{}
	for _, k := range c.keys {
		if *k.value != "" {
			set[k.key] = fmt.Sprintf(k.form, *k.value)
		}
	}
	if *c.withoutPage {
		set["load.without_page"] = "true"
	}
	levels := set["load.users"] + set["load.requests_per_second"] + set["load.trace_file"]
	switch {
	case load == nil:
		set["load.duration"] = cmp.Or(set["load.duration"], "20s")
		if levels == "" {
			set["load.users"] = "[1, 4, 16]"
		}
	case levels == "":
		set["load.target"] = cmp.Or(set["load.target"], fmt.Sprint(load.Target))
	}
	return set
}

// endedEarly marks the error of a load test that ended early, or did not begin.
type endedEarly struct{ error }

// loadVerdict returns the error of a load test, unless all was measured and the target meets the objectives, if there are any.
func loadVerdict(f *loadtest.Finding) error {
	switch verdict := f.TargetVerdict(); {
	case verdict == loadtest.Missed:
		return fmt.Errorf("at %s an objective is missed in more than 1 %% of the requests", f.Kind.Words(f.Target))
	case f.End != loadtest.Completed:
		return endedEarly{fmt.Errorf("the load test ended early (%s): %s", f.End, cmp.Or(f.Text, "nothing more is known"))}
	case verdict == loadtest.Undecided, verdict == "" && f.TTFT+f.TPOT > 0: // nothing to hold against the objectives is no pass
		return usageError{fmt.Errorf("undecided at %s: more requests, by a longer --for, would decide", f.Kind.Words(f.Target))}
	}
	return nil
}

// showLoad returns what shows how far a load test is: on a terminal by a line that is rewritten, else by one every 10 s.
func showLoad(w io.Writer, kind config.LoadKind, terminal bool) func(loadtest.Progress) {
	const every = 10 * time.Second
	var next time.Duration // when a line is due
	return func(s loadtest.Progress) {
		text := fmt.Sprintf("%s %s: %d in flight, %d done, %d failed", s.At.Truncate(time.Second), kind.Words(s.Level), s.InFlight, s.Done, s.Failed)
		if s.P99 > 0 {
			text += fmt.Sprintf(", TTFT p50 %s p99 %s", result.InWords(s.P50), result.InWords(s.P99))
		}
		if s.Pressure != nil {
			text += fmt.Sprintf(", %g waiting", s.Pressure.Waiting)
		}
		switch {
		case terminal:
			fmt.Fprintf(w, "\r%.*s\x1b[K", probereport.Width-1, text)
		case s.At >= next:
			fmt.Fprintln(w, text)
			next = s.At + every
		}
	}
}
