package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	probereport "github.com/inference-exporter/inference_exporter/internal/report"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// explainCommand explains the state of an endpoint: that of a running exporter, or one
// that it probes itself.
type explainCommand struct {
	target, server, model, output *string
	count                         int
}

func newExplainCommand(c *kingpin.CmdClause) *explainCommand {
	e := &explainCommand{
		target: c.Arg("target", "Name of an endpoint of a running exporter, or URL of one to probe now.").Required().String(),
		server: c.Flag("server", "URL of the running exporter.").Default("http://127.0.0.1" + listenAddress).String(),
		model:  c.Flag("model", "Model to ask for at a URL. It is needed where a server has several.").PlaceHolder("NAME").String(),
		output: c.Flag("output", "Format of the output: text, or json as the API has it.").Short('o').Default("text").Enum("text", "json"),
	}
	c.Flag("count", "Number of probes of a URL.").Short('n').Default("5").SetValue(cli.Whole(&e.count))
	return e
}

func (c *explainCommand) run(ctx context.Context, env environment) error {
	report, err := c.report(ctx)
	if err != nil {
		return err
	}
	if *c.output == "json" {
		err = probereport.ExplainJSON(env.Stdout, report)
	} else {
		err = probereport.Explain(env.Stdout, report, probereport.Options{Width: fleet.ReportWidth, Color: wantsColor(env.Stdout)})
	}
	if err != nil {
		return fmt.Errorf("print the explanation: %w", err)
	}
	return nil
}

func (c *explainCommand) report(ctx context.Context) (*explain.Report, error) {
	if !fleet.IsURL(*c.target) {
		return c.ask(ctx)
	}
	if c.count < 1 {
		return nil, unusable{fmt.Errorf("--count=%d: want at least 1", c.count)}
	}
	cfg, err := config.FromURLs([]string{*c.target})
	if err != nil {
		return nil, err
	}
	t, err := fleet.NewTarget(cfg.Endpoints[0], cfg.Modules, config.Interactive, "", *c.model)
	if err != nil {
		return nil, unusable{err}
	}
	return fleet.ExplainOnce(ctx, t, c.count)
}

const (
	// askTimeout is how long a running exporter may take to answer, and maxAnswerBytes
	// how much it may answer.
	askTimeout     = 10 * time.Second
	maxAnswerBytes = 1 << 20
)

// ask returns what the running exporter knows of an endpoint.
func (c *explainCommand) ask(ctx context.Context) (*explain.Report, error) {
	base, err := url.Parse(*c.server)
	if err != nil || base.Host == "" {
		return nil, unusable{fmt.Errorf("--server=%s: want a URL like http://127.0.0.1%s", *c.server, listenAddress)}
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	path := strings.TrimSuffix(base.String(), "/") + "/api/v1/endpoints/" + url.PathEscape(*c.target) + "/explain"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, unusable{fmt.Errorf("--server: %w", err)}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the exporter, which --server names: %w", err)
	}
	defer resp.Body.Close()
	return readReport(resp)
}

// readReport reads the answer of an exporter.
func readReport(resp *http.Response) (*explain.Report, error) {
	var answer struct {
		explain.Report
		Error string `json:"error"`
	}
	err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswerBytes)).Decode(&answer)
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

// maxHeaderShown bounds what is shown of a header, in bytes.
const maxHeaderShown = 60
