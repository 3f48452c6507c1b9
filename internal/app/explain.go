package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	"github.com/inference-exporter/inference_exporter/internal/foreign"
	probereport "github.com/inference-exporter/inference_exporter/internal/report"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// explainCommand explains the state of an endpoint: that of a running exporter, or one that it probes itself.
type explainCommand struct {
	request
	target, server, output *string
	count                  int
}

func newExplainCommand(c *kingpin.CmdClause) *explainCommand {
	e := new(explainCommand)
	e.target = c.Arg("target", "Name of an endpoint of a running exporter, or what to probe now: a URL, or with --config.file a name in it.").Required().HintAction(e.endpointNames).String()
	e.server = c.Flag("server", "URL of the running exporter. --header, --key-env and the other flags of access are then for it; for a user in the URL the key is the password.").
		Default("http://127.0.0.1" + listenAddress).String()
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
	defer c.access.warn(env.Stderr)
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

// ask returns what the running exporter knows of an endpoint.
func (c *explainCommand) ask(ctx context.Context) (*explain.Report, error) {
	base, err := url.Parse(*c.server)
	if err != nil || base.Host == "" {
		return nil, usageError{fmt.Errorf("--server=%s: want a URL like http://127.0.0.1%s", *c.server, listenAddress)}
	}
	client, err := c.client(base)
	if err != nil {
		return nil, usageError{err}
	}
	path := strings.TrimSuffix(base.String(), "/") + "/api/v1/endpoints/" + url.PathEscape(*c.target) + "/explain"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, usageError{fmt.Errorf("--server: %w", err)}
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the exporter, which --server names: %w", err)
	}
	defer resp.Body.Close()
	return readReport(resp)
}

// client returns a client that asks the exporter with the flags of access. A key becomes
// the password of the user of its URL.
func (c *explainCommand) client(server *url.URL) (*http.Client, error) {
	anonymous := *server
	anonymous.User = nil
	e, err := fleet.EndpointAt(anonymous.String())
	if err != nil {
		return nil, fmt.Errorf("--server: %w", err)
	}
	if err := c.access.apply(e); err != nil {
		return nil, err
	}
	if name := server.User.Username(); name != "" && e.HTTP.Authorization != nil {
		server.User = url.UserPassword(name, string(e.HTTP.Authorization.Credentials))
		e.HTTP.Authorization = nil
	}
	client, err := foreign.Limits{Time: askTimeout, Bytes: maxAnswerBytes}.Client(&e.HTTP.HTTPClientConfig, "explain")
	if err != nil {
		return nil, fmt.Errorf("--server: %w", err)
	}
	return client, nil
}

func readReport(resp *http.Response) (*explain.Report, error) {
	var answer struct {
		explain.Report
		Error string `json:"error"`
	}
	text, err := foreign.ReadAll(resp.Body, maxAnswerBytes)
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	switch {
	case err == nil && answer.Error != "":
		return nil, fmt.Errorf("the exporter at %s: %.200s", resp.Request.URL.Host, answer.Error)
	case err != nil || resp.StatusCode != http.StatusOK || len(answer.Findings) == 0:
		return nil, notAnExporter(resp)
	}
	return &answer.Report, nil
}

// notAnExporter returns the error of an answer that no exporter with this command gives:
// what was asked, what answered, and what to check.
func notAnExporter(resp *http.Response) error {
	what := cmp.Or(safetext.Line(resp.Header.Get("Content-Type"), maxHeaderShown), "no content type")
	if server := safetext.Line(resp.Header.Get("Server"), maxHeaderShown); server != "" {
		what += ", server " + server
	}
	return fmt.Errorf("GET %s: status %s (%s), and no explanation; check that --server is the URL of an exporter that has this command too, "+
		"with the path prefix of a proxy in front of it", resp.Request.URL.Redacted(), resp.Status, what)
}

const maxHeaderShown = 60
