package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/inference-exporter/inference_exporter/internal/foreign"
	"github.com/inference-exporter/inference_exporter/internal/recorder"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/internal/web"
)

// incidentCommand prints a recording that the running exporter keeps, or lists all of them.
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

const maxNameShown = 200

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
