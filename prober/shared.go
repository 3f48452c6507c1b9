package prober

import (
	"net/http"
	"reflect"
	"slices"
	"sync"

	promconfig "github.com/prometheus/common/config"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// shared is what the endpoints of one Dialer have in common, so that thousands of them
// take little room. The zero value is ready, and safe for concurrent use.
type shared struct {
	mu         sync.Mutex
	transports []sharedTransport // the latest last
	protocols  map[string]*api.Protocol
}

// sharedTransport is a transport that keeps no connections, with its settings.
type sharedTransport struct {
	settings promconfig.HTTPClientConfig
	rt       http.RoundTripper
}

// maxTransports bounds the settings that are remembered. What is forgotten stays in use
// where it is.
const maxTransports = 16

// transport returns the transport of equal settings, or the one that make returns.
// Transports that hold a state of their own, a token or an HTTP/2 connection, are not
// shared.
func (s *shared) transport(h *config.HTTPClient, make func() (http.RoundTripper, error)) (http.RoundTripper, error) {
	if h.OAuth2 != nil || h.EnableHTTP2 {
		return make()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.transports, func(t sharedTransport) bool { return reflect.DeepEqual(t.settings, h.HTTPClientConfig) })
	if i >= 0 {
		return s.transports[i].rt, nil
	}
	rt, err := make()
	if err != nil {
		return nil, err
	}
	if len(s.transports) == maxTransports {
		s.transports = slices.Delete(s.transports, 0, 1)
	}
	s.transports = append(s.transports, sharedTransport{h.HTTPClientConfig, rt})
	return rt, nil
}

// protocol returns the wire protocol of a name; false for none. It must not be changed.
func (s *shared) protocol(name string) (*api.Protocol, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.protocols[name]
	if ok {
		return p, true
	}
	made, ok := api.Lookup(name)
	if ok {
		if s.protocols == nil {
			s.protocols = map[string]*api.Protocol{}
		}
		s.protocols[name] = &made
	}
	return &made, ok
}
