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
	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/prober"
	"github.com/inference-exporter/inference_exporter/prober/detect"
)

type detectCommand struct {
	url     *string
	timeout time.Duration
	access  access
}

func newDetectCommand(c *kingpin.CmdClause) *detectCommand {
	d := &detectCommand{url: c.Arg("url", "URL of the server, or HOST:PORT.").Required().String()}
	c.Flag("timeout", "Time limit of all requests together.").Default("15s").SetValue(cli.Above(&d.timeout, 0))
	d.access = newAccess(c)
	return d
}

// run prints what was found as a configuration file, the reasons as comments.
func (c *detectCommand) run(ctx context.Context, env environment) error {
	endpoint, err := fleet.EndpointAt(withScheme(ctx, *c.url, env.Stderr))
	if err != nil {
		return usageError{fmt.Errorf("detect: %w, or HOST:PORT", err)}
	}
	if err := c.access.apply(endpoint); err != nil {
		return usageError{err}
	}
	c.access.warn(env.Stderr)
	base := endpoint.URL.URL
	limited, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("timed out after %s", c.timeout))
	defer cancel()
	progress := newProgress(env.Stderr, "asking", 1)
	found, err := c.ask(limited, endpoint)
	progress.end()
	if ctx.Err() != nil {
		return fmt.Errorf("detect %s: %w", base, ctx.Err())
	}
	if len(found.Evidence) > 1 && err != nil { // it answered, and nothing known
		printEvidence(env.Stderr, "  ", found.Evidence)
	}
	if err != nil {
		return fmt.Errorf("detect %s: %w", base, err)
	}
	page, shown, err := serversPage(limited, endpoint, found.Engine)
	if err != nil {
		return err
	}
	found.Engine = cmp.Or(found.Engine, shown) // known by its page alone: the rest may need a key
	engine := cmp.Or(strings.TrimSpace(found.Engine+" "+found.Version), "unknown")
	fmt.Fprintf(env.Stdout, "# yaml-language-server: $schema=%s\n# api %s, engine %s\n", config.SchemaURL, found.API, engine)
	printEvidence(env.Stdout, "#   ", found.Evidence)
	fmt.Fprintf(env.Stdout, "#   %s\n", page)
	fmt.Fprint(env.Stdout, detect.Stanza(found, base)+c.access.stanza(endpoint))
	return nil
}

// ask asks as the first probe of an endpoint does.
func (c *detectCommand) ask(ctx context.Context, endpoint *config.Endpoint) (detect.Finding, error) {
	dialer := prober.NewDialer()
	defer dialer.Close()
	e, err := prober.NewEndpoint(endpoint, prober.Options{Dialer: dialer, UserAgent: fleet.UserAgent()})
	if err != nil {
		return detect.Finding{}, err
	}
	return e.Detect(ctx)
}

// serversPage says whether the server shows metrics or, where not, what would make it. shown is the engine of the page.
func serversPage(ctx context.Context, endpoint *config.Endpoint, found string) (said, shown string, err error) {
	mappings := page.NewMappings(page.Servers, nil)
	reader, err := page.New(endpoint, page.Options{Mappings: mappings, UserAgent: fleet.UserAgent()})
	if err != nil {
		return "", "", err
	}
	defer reader.Close()
	if statuses := reader.Scrape(ctx, page.Known{Engine: found}); len(statuses) > 0 {
		s := &statuses[0]
		if s.State == page.Up {
			return fmt.Sprintf("GET %s: metrics of %s", s.URL, s.Snapshot.Engine), s.Snapshot.Engine, nil
		}
		return fmt.Sprintf("GET %s: metrics that cannot be read: %v", s.URL, s.Err), "", nil
	}
	if s := reader.Locked(); s != nil {
		return fmt.Sprintf("GET %s: %v", s.URL, s.Err), "", nil
	}
	text := "no metrics of the server itself"
	if m := mappings.Mapping(found); m != nil {
		text += "; to show them: " + strings.Join(strings.Fields(m.Setup), " ")
	}
	return text, "", nil
}

func printEvidence(w io.Writer, indent string, evidence []string) {
	for _, line := range evidence {
		fmt.Fprintln(w, indent+line)
	}
}
