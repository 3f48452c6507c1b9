package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	promdiscovery "github.com/prometheus/prometheus/discovery"
	promhttp "github.com/prometheus/prometheus/discovery/http"
	"github.com/prometheus/prometheus/discovery/refresh"
	"github.com/prometheus/prometheus/discovery/targetgroup"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// urlLabel has the URL that a target comes from.
const urlLabel = model.MetaLabelPrefix + "url"

// maxErrorBytes bounds the text of an error, part of which a server writes.
const maxErrorBytes = 512

// httpSource asks a URL for a list of targets: as Prometheus' own discovery, which
// takes in whatever comes, but within the limits.
type httpSource struct {
	url, userAgent string
	interval       time.Duration
	client         *http.Client
	limits         func() config.Limits
	failures       prometheus.Counter
	groups         int // of the latest list
}

// newHTTP returns the discovery of a URL.
func (f *Finder) newHTTP(c *promhttp.SDConfig, name string, logger *slog.Logger) (promdiscovery.Discoverer, error) {
	client, err := promconfig.NewClientFromConfig(c.HTTPClientConfig, "http")
	if err != nil {
		return nil, err
	}
	interval := time.Duration(c.RefreshInterval)
	client.Timeout = interval
	s := &httpSource{
		url: c.URL, userAgent: f.options.UserAgent, interval: interval, client: client, limits: f.limits, failures: f.own.httpFailures,
	}
	return refresh.NewDiscovery(refresh.Options{
		Logger: logger, Mech: c.Name(), SetName: name, Interval: interval, RefreshF: s.refresh, MetricsInstantiator: f.metrics.RefreshManager,
	}), nil
}

// refresh returns the groups of now, and empty ones for those that are gone.
func (s *httpSource) refresh(ctx context.Context) ([]*targetgroup.Group, error) {
	groups, err := s.fetch(ctx)
	if err != nil {
		s.failures.Inc()
		return nil, errors.New(safetext.Line(err.Error(), maxErrorBytes))
	}
	n := len(groups)
	groups = append(groups, emptied(s.url, n, s.groups)...)
	s.groups = n
	return groups, nil
}

func (s *httpSource) fetch(ctx context.Context) ([]*targetgroup.Group, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", s.userAgent)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("X-Prometheus-Refresh-Interval-Seconds", strconv.FormatFloat(s.interval.Seconds(), 'f', -1, 64))
	resp, err := s.client.Do(req)
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // without the URL, which may be one that a redirect names
	}
	if err != nil {
		return nil, fmt.Errorf("ask %s for targets: %w", req.URL.Host, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("server returned HTTP status %s", resp.Status)
	}
	if !isJSON(resp.Header.Get("Content-Type")) {
		return nil, fmt.Errorf("unsupported content type %q", resp.Header.Get("Content-Type"))
	}
	limits := s.limits()
	text, err := readBounded(resp.Body, limits.DiscoveryBytes)
	if err != nil {
		return nil, fmt.Errorf("read the reply: %w", err)
	}
	l := list{place: s.url, label: urlLabel, limits: limits}
	groups, err := l.parse(text, false)
	if err != nil {
		return nil, fmt.Errorf("read the list of targets: %w", err)
	}
	return groups, nil
}

// isJSON reports whether a content type is JSON, in UTF-8 where it names a
// character set.
func isJSON(contentType string) bool {
	media, params, err := mime.ParseMediaType(contentType)
	charset, named := params["charset"]
	return err == nil && media == "application/json" && (!named || strings.EqualFold(charset, "utf-8"))
}
