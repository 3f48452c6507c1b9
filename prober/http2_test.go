package prober

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// newHTTP2Endpoint returns the configuration of an endpoint with HTTP/2 on.
func newHTTP2Endpoint(t *testing.T, s *httptest.Server) *config.Endpoint {
	cfg := newEndpoint(t, s.URL)
	cfg.HTTP.EnableHTTP2 = true
	cfg.HTTP.TLSConfig.InsecureSkipVerify = true
	return cfg
}

// chatHTTP2 answers generation over HTTP/2, and counts the connections.
func chatHTTP2(t *testing.T, answer http.HandlerFunc) (s *httptest.Server, connections *atomic.Int64) {
	t.Helper()
	connections = new(atomic.Int64)
	s = testlab.NewServer(t, answer)
	s.EnableHTTP2 = true
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.StartTLS()
	return s, connections
}

func TestHTTP2(t *testing.T) {
	s, connections := chatHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("asked by %s, want HTTP/2", r.Proto)
		}
		if r.URL.Path == "/v1/models" {
			io.WriteString(w, `{"object":"list","data":[{"id":"m","owned_by":"vllm"}]}`)
			return
		}
		events(w, role, thought, one, stop, usage, endMarker)
	})
	f := func(c config.Connection, wantConnections int64, wantReused bool) {
		t.Helper()
		cfg := newHTTP2Endpoint(t, s)
		m := newModule()
		m.Connection = c
		p := newProber(t, cfg, m)
		p.endpoint.lookedUpAt = time.Now() // no question for the models between
		connections.Store(0)
		for i := range 3 {
			r := p.one(t.Context(), time.Time{})
			if r.Outcome != result.Success {
				t.Fatalf("%s: outcome %s: %v", c, r.Outcome, r.Err)
			}
			checkConsistent(t, r)
			if want := wantReused && i > 0; r.Reused != want {
				t.Errorf("%s: probe %d: reused %t, want %t", c, i, r.Reused, want)
			}
			if !r.Reused && (r.Timing.Phases[result.PhaseTLS] <= 0 || r.CertNotAfter.IsZero()) {
				t.Errorf("%s: phases %v, certificate until %s", c, r.Timing.Phases, r.CertNotAfter)
			}
			if r.Timing.Phases[result.PhaseWrite] != result.Absent || r.Timing.Phases[result.PhaseFirstByte] <= 0 {
				t.Errorf("%s: phases %v, want first byte, and write as a part of it", c, r.Timing.Phases)
			}
		}
		if n := connections.Load(); n != wantConnections {
			t.Errorf("%s: %d connections for 3 probes, want %d", c, n, wantConnections)
		}
	}
	f(config.ConnectionNew, 3, false)
	f(config.ConnectionReuse, 1, true)
}

func TestHTTP2Timeouts(t *testing.T) {
	const short = model.Duration(50 * time.Millisecond)
	f := func(name string, want result.Outcome, limit func(*config.Module), sent ...string) {
		t.Run(name, func(t *testing.T) {
			testlab.Virtual(t, func(t *testing.T) {
				m := newModule()
				limit(m)
				left := make(chan struct{})
				s, _ := chatHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
					defer close(left)
					if len(sent) > 0 {
						events(w, sent...)
					}
					<-r.Context().Done()
				})
				r := newProber(t, newHTTP2Endpoint(t, s), m).one(testlab.Context(t), time.Time{})
				if r.Outcome != want {
					t.Fatalf("outcome %s (%v), want %s", r.Outcome, r.Err, want)
				}
				<-left // the server sees that the client no longer waits
			})
		})
	}
	f("headers", result.TimeoutFirstToken, func(m *config.Module) { m.Timeouts.Headers = short })
	f("first token", result.TimeoutFirstToken, func(m *config.Module) { m.Timeouts.FirstToken = short }, role)
	f("stall", result.TimeoutStall, func(m *config.Module) { m.Timeouts.Stall = short }, role, one)
	f("total", result.TimeoutTotal, func(m *config.Module) { m.Timeout = short }, role, one)
}

// frames writes the frames of a reply by hand.
type frames struct {
	*http2.Framer
	stream uint32
}

// headers begins a good reply.
func (f frames) headers() {
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	enc.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	enc.WriteField(hpack.HeaderField{Name: "content-type", Value: "text/event-stream"})
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: f.stream, BlockFragment: block.Bytes(), EndHeaders: true})
}

// events sends each event as one DATA frame.
func (f frames) events(data ...string) {
	for _, d := range data {
		f.WriteData(f.stream, false, fmt.Appendf(nil, "data: %s\n\n", d))
	}
}

// end ends the reply as it should.
func (f frames) end() { f.WriteData(f.stream, true, nil) }

// rawHTTP2 serves HTTP/2 frame by frame: answer is called for each request
// when it is complete; if it returns false, the connection is closed.
func rawHTTP2(t *testing.T, answer func(frames) bool) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.TLS = &tls.Config{NextProtos: []string{"h2"}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
		"h2": func(_ *http.Server, c *tls.Conn, _ http.Handler) {
			if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
				t.Errorf("read the preface: %v", err)
				return
			}
			framer := http2.NewFramer(c, c)
			framer.WriteSettings()
			for {
				frame, err := framer.ReadFrame()
				if err != nil {
					return // the client left
				}
				switch f := frame.(type) {
				case *http2.SettingsFrame:
					if !f.IsAck() {
						framer.WriteSettingsAck()
					}
				case *http2.DataFrame:
					if f.StreamEnded() && !answer(frames{framer, f.StreamID}) {
						return
					}
				}
			}
		},
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// How an answer can end on HTTP/2: each cut is one, whichever frame reports it,
// and no request is sent twice.
func TestHTTP2Ends(t *testing.T) {
	f := func(name string, want result.Outcome, wantErr string, answer func(frames) bool) {
		t.Run(name, func(t *testing.T) {
			t.Helper()
			requests := 0
			s := rawHTTP2(t, func(f frames) bool {
				requests++
				return answer(f)
			})
			r := newProber(t, newHTTP2Endpoint(t, s), newModule()).one(t.Context(), time.Time{})
			if r.Outcome != want || !strings.Contains(fmt.Sprint(r.Err), wantErr) {
				t.Errorf("outcome %s (%v), want %s (...%s...)", r.Outcome, r.Err, want, wantErr)
			}
			checkConsistent(t, r)
			s.Close()
			if requests != 1 {
				t.Errorf("%d requests, want 1", requests)
			}
		})
	}
	f("complete", result.Success, "", func(f frames) bool {
		f.headers()
		f.events(role, one, stop, endMarker)
		f.end()
		return true
	})
	f("GOAWAY after this request", result.Success, "", func(f frames) bool {
		f.headers()
		f.events(role, one)
		f.WriteGoAway(f.stream, http2.ErrCodeNo, nil)
		f.events(one, stop, endMarker)
		f.end()
		return true
	})
	f("GOAWAY and closed in mid-answer", result.Truncated, "", func(f frames) bool {
		f.headers()
		f.events(role, one)
		f.WriteGoAway(f.stream, http2.ErrCodeNo, nil)
		return false
	})
	f("GOAWAY that disowns the request in mid-answer", result.Truncated, "", func(f frames) bool {
		f.headers()
		f.events(role, one)
		f.WriteGoAway(0, http2.ErrCodeInternal, []byte("shutting down"))
		return true
	})
	f("GOAWAY before the headers", result.Truncated, "", func(f frames) bool {
		f.WriteGoAway(0, http2.ErrCodeNo, nil)
		return true
	})
	f("RST_STREAM in mid-answer", result.Truncated, "", func(f frames) bool {
		f.headers()
		f.events(role, one)
		f.WriteRSTStream(f.stream, http2.ErrCodeInternal)
		return true
	})
	f("RST_STREAM after the finish reason", result.Success, "", func(f frames) bool {
		f.headers()
		f.events(role, one, stop)
		f.WriteRSTStream(f.stream, http2.ErrCodeCancel)
		return true
	})
	f("RST_STREAM before the headers", result.Truncated, "", func(f frames) bool {
		f.WriteRSTStream(f.stream, http2.ErrCodeInternal)
		return true
	})
	f("request refused", result.Truncated, "", func(f frames) bool {
		f.WriteRSTStream(f.stream, http2.ErrCodeRefusedStream)
		return true
	})
	f("closed in mid-answer", result.Truncated, "", func(f frames) bool {
		f.headers()
		f.events(role, one)
		return false
	})
	f("closed before the headers", result.Truncated, "", func(frames) bool { return false })
	f("end before the finish reason", result.Truncated, "", func(f frames) bool {
		f.headers()
		f.events(role, one)
		f.end()
		return true
	})
}
