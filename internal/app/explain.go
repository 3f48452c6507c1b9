package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	"github.com/inference-exporter/inference_exporter/internal/foreign"
	"github.com/inference-exporter/inference_exporter/internal/recorder"
	probereport "github.com/inference-exporter/inference_exporter/internal/report"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/internal/web"
)

// explainCommand explains the state of an endpoint: that of a running exporter, one that it probes itself, or the one in a recording.
type explainCommand struct {
	request
	exporter
	target, recording, output *string
	count                     int
}

func newExplainCommand(c *kingpin.CmdClause) *explainCommand {
	e := new(explainCommand)
	e.target = c.Arg("target", "Name of an endpoint of a running exporter, or what to probe now: a URL, or with --config.file a name in it.").HintAction(e.endpointNames).String()
	e.exporter = newExporter(c, &e.request.access)
	e.recording = c.Flag("file", "Explain by the evidence of a recording, which the command incident writes as a page or as JSON, instead of a TARGET; - is standard input.").PlaceHolder("FILE").String()
	e.output = c.Flag("output", "Format of the output: text, or json as the API has it.").Short('o').Default("text").Enum("text", "json")
	c.Flag("count", "Number of probes where the target is probed.").Short('n').Default("5").SetValue(cli.AtLeast(&e.count, 1))
	e.request.addTo(c)
	return e
}

func (c *explainCommand) run(ctx context.Context, env environment) error {
	report, err := c.report(ctx, env)
	if err != nil {
		return err
	}
	return printAs(*c.output,
		func() error {
			return probereport.Explain(env.Stdout, report, probereport.Options{Color: wantsColor(env.Stdout)})
		},
		func() error { return probereport.Encode(env.Stdout, report) },
	)
}

func (c *explainCommand) report(ctx context.Context, env environment) (*explain.Report, error) {
	defer c.request.access.warn(env.Stderr)
	switch {
	case *c.recording != "" && *c.target != "":
		return nil, usageError{errors.New("--file: not with a target")}
	case *c.recording != "":
		return explainFile(*c.recording)
	case *c.target == "":
		return nil, usageError{errors.New("required argument 'target' not provided, try inference_exporter explain --help")}
	}
	if !fleet.IsURL(*c.target) && *c.file == "" {
		return c.ask(ctx)
	}
	t, err := c.resolve(ctx, *c.target, env)
	if err != nil {
		return nil, err
	}
	progress := newProgress(env.Stderr, "probing", 1)
	defer progress.end()
	return fleet.ExplainOnce(ctx, t, c.engines, c.count)
}

const (
	// askTimeout is how long a running exporter may take to answer, and maxAnswerBytes how much it may answer.
	askTimeout     = 10 * time.Second
	maxAnswerBytes = 1 << 20
)

func explainFile(name string) (*explain.Report, error) {
	var report *explain.Report
	r, err := readRecording(name)
	if err == nil {
		report, err = r.Explain()
	}
	if err != nil {
		return nil, usageError{fmt.Errorf("--file=%s: %w", name, err)}
	}
	return report, nil
}

func (c *explainCommand) ask(ctx context.Context) (*explain.Report, error) {
	resp, text, err := c.get(ctx, "/api/v1/endpoints/"+url.PathEscape(*c.target)+"/explain", "explanation", maxAnswerBytes)
	if err != nil {
		return nil, err
	}
	report := new(explain.Report)
	if json.Unmarshal(text, report) != nil || len(report.Findings) == 0 {
		return nil, notAnExporter(resp, "explanation")
	}
	return report, nil
}

// exporter is a running exporter that a command asks.
type exporter struct {
	server *string
	access *access
}

func newExporter(c *kingpin.CmdClause, a *access) exporter {
	return exporter{c.Flag("server", "URL of the running exporter. --header, --key-env and the other flags of access are then for it; for a user in the URL the key is the password.").
		Default("http://127.0.0.1" + listenAddress).String(), a}
}

// get returns what the API answers at a path, with its body as text; an answer that says what is wrong is an error. What is asked for is
// in the errors.
func (x exporter) get(ctx context.Context, path, what string, limit int64) (*http.Response, []byte, error) {
	base, err := url.Parse(*x.server)
	if err != nil || base.Host == "" {
		return nil, nil, usageError{fmt.Errorf("--server=%s: want a URL like http://127.0.0.1%s", *x.server, listenAddress)}
	}
	client, err := x.client(base, limit)
	if err != nil {
		return nil, nil, usageError{err}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base.String(), "/")+path, nil)
	if err != nil {
		return nil, nil, usageError{fmt.Errorf("--server: %w", err)}
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, nil, fmt.Errorf("ask the exporter, which --server names: %w", err)
	}
	defer resp.Body.Close()
	text, err := foreign.ReadAll(resp.Body, limit)
	var refusal struct {
		Error string `json:"error"`
	}
	if err == nil && json.Unmarshal(text, &refusal) == nil && refusal.Error != "" {
		return nil, nil, fmt.Errorf("the exporter at %s: %.200s", resp.Request.URL.Host, refusal.Error)
	}
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil, nil, notAnExporter(resp, what)
	}
	return resp, text, nil
}

// client returns a client with the flags of access. A key becomes the password of the user of the exporter's URL.
func (x exporter) client(server *url.URL, limit int64) (*http.Client, error) {
	anonymous := *server
	anonymous.User = nil
	e, err := fleet.EndpointAt(anonymous.String())
	if err != nil {
		return nil, fmt.Errorf("--server: %w", err)
	}
	if err := x.access.apply(e); err != nil {
		return nil, err
	}
	if name := server.User.Username(); name != "" && e.HTTP.Authorization != nil {
		server.User = url.UserPassword(name, string(e.HTTP.Authorization.Credentials))
		e.HTTP.Authorization = nil
	}
	client, err := foreign.Limits{Time: askTimeout, Bytes: limit}.Client(&e.HTTP.HTTPClientConfig, "exporter")
	if err != nil {
		return nil, fmt.Errorf("--server: %w", err)
	}
	return client, nil
}

// notAnExporter returns the error of an answer that no exporter with this command gives: what answered, what to check.
func notAnExporter(resp *http.Response, wanted string) error {
	what := cmp.Or(safetext.Line(resp.Header.Get("Content-Type"), maxHeaderShown), "no content type")
	if server := safetext.Line(resp.Header.Get("Server"), maxHeaderShown); server != "" {
		what += ", server " + server
	}
	return fmt.Errorf("GET %s: status %s (%s), and no %s; check that --server is the URL of an exporter that has this command too, "+
		"with the path prefix of a proxy in front of it", resp.Request.URL.Redacted(), resp.Status, what, wanted)
}

// How much is shown of texts of an exporter, in bytes.
const maxHeaderShown, maxNameShown = 60, 200

type incidentCommand struct {
	exporter
	name, at *string
	json     *bool
}

func newIncidentCommand(c *kingpin.CmdClause) *incidentCommand {
	i := &incidentCommand{
		name: c.Arg("name", "Name of an endpoint of the running exporter; without it all recordings are listed.").String(),
		at:   c.Flag("at", "Any time in the incident, as in 2026-01-02T03:04:05Z; without it the latest is meant.").PlaceHolder("TIME").Default(recorder.Latest).String(),
		json: c.Flag("json", "Print the recording, or the list, as JSON.").Bool(),
	}
	access := newAccess(c)
	i.exporter = newExporter(c, &access)
	return i
}

func (c *incidentCommand) run(ctx context.Context, env environment) error {
	defer c.access.warn(env.Stderr)
	if *c.name == "" {
		return c.list(ctx, env.Stdout)
	}
	if !*c.json && isTerminal(env.Stdout) {
		return usageError{errors.New("the recording is a page for a browser: write it to a file, as in > incident.html, or ask for --json")}
	}
	resp, text, err := c.get(ctx, "/api/v1/endpoints/"+url.PathEscape(*c.name)+"/incidents/"+url.PathEscape(*c.at), "recording", 2*recorder.MaxBytes)
	if err != nil {
		return err
	}
	recording, err := recorder.Decode(text)
	switch {
	case err != nil:
		return fmt.Errorf("the exporter at %s: %w", resp.Request.URL.Host, err)
	case *c.json:
		_, err = fmt.Fprintf(env.Stdout, "%s\n", text)
		return err
	}
	return web.WriteIncident(env.Stdout, recording)
}

// list prints the recordings, the latest last.
func (c *incidentCommand) list(ctx context.Context, w io.Writer) error {
	resp, text, err := c.get(ctx, "/api/v1/incidents", "list of recordings", maxAnswerBytes)
	if err != nil {
		return err
	}
	var all struct {
		Incidents []recorder.Listed `json:"incidents"`
	}
	if json.Unmarshal(text, &all) != nil {
		return notAnExporter(resp, "list of recordings")
	}
	if *c.json {
		_, err = fmt.Fprintf(w, "%s\n", text)
		return err
	}
	rows := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(rows, "ENDPOINT\tINCIDENT\tSTART\tEND\tKB")
	for _, i := range all.Incidents {
		end := "goes on"
		if !i.End.IsZero() {
			end = i.End.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(rows, "%s\t%s\t%s\t%s\t%d\n", safetext.Line(i.Endpoint, maxNameShown), safetext.Line(string(i.Kind), maxNameShown), i.Start.UTC().Format(time.RFC3339), end, (i.Bytes+999)/1000)
	}
	return rows.Flush()
}

// maxPageBytes bounds the page of a recording, in which it is as JSON.
const maxPageBytes = 4 * recorder.MaxBytes

// readRecording returns the recording in a file, a page or JSON; "-" is standard input.
func readRecording(name string) (*recorder.Recording, error) {
	read := func() ([]byte, error) { return foreign.ReadFile(name, maxPageBytes) }
	if name == "-" {
		read = func() ([]byte, error) { return foreign.ReadAll(os.Stdin, maxPageBytes) }
	}
	text, err := read()
	if err != nil {
		return nil, err
	}
	return web.ReadIncident(text)
}
