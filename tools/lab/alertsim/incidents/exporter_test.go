package incidents

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"golang.org/x/sync/errgroup"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/internal/status"
)

// exporter is the exporter without its web server.
type exporter struct {
	page  *collector.Exposition
	fleet *fleet.Fleet
	stop  func()
}

// startExporter starts an exporter, put together as the program does.
func startExporter(t *testing.T, cfg *config.Config, n network) *exporter {
	t.Helper()
	registry := prom.NewRegistry()
	logger := slog.New(slog.DiscardHandler)
	o := fleet.Options{
		Probing:  schedule.New(schedule.Options{InFlight: cfg.Global.Limits.InFlight, InFlightPerHost: cfg.Global.Limits.InFlightPerHost}),
		Scraping: schedule.New(schedule.Options{}), Probes: collector.NewProbes(time.Now),
		Self: collector.NewSelf(registry), Health: health.NewShared(time.Now, logger), Board: status.NewBoard(time.Now), Logger: logger, Network: n,
	}
	e := &exporter{page: collector.NewExposition(registry, o.Probes), fleet: fleet.New(o)}
	o.Self.Reloaded(true, time.Now())
	if err := e.fleet.Apply(fleet.Plan{Config: cfg, Endpoints: cfg.Endpoints, All: cfg.Endpoints}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group errgroup.Group
	group.Go(func() error { return o.Probing.Run(ctx) })
	group.Go(func() error { return o.Scraping.Run(ctx) })
	group.Go(func() error { return e.fleet.WatchCauses(ctx) })
	e.stop = func() {
		cancel()
		_ = group.Wait()
		e.fleet.Close()
	}
	return e
}

// metrics returns the page of metrics.
func (e *exporter) metrics(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := e.page.Write(&b, expfmt.NewFormat(expfmt.TypeTextPlain)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
