package e2e

import (
	"context"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What a real server is checked by: the URL of an endpoint, or a configuration
// file whose endpoints are all checked, which can hold keys and models.
const (
	envEndpoint = "INFERENCE_EXPORTER_E2E_ENDPOINT"
	envConfig   = "INFERENCE_EXPORTER_E2E_CONFIG"
)

// TestEndpoint checks whatever answers there.
func TestEndpoint(t *testing.T) {
	url, file := os.Getenv(envEndpoint), os.Getenv(envConfig)
	var cfg *config.Config
	var err error
	switch {
	case file != "":
		cfg, err = config.Load(file, "")
	case url != "":
		cfg = fromURL(t, url)
	default:
		t.Skip("no server to check: run make e2e ENDPOINT=http://host:port or make e2e CONFIG=file.yml")
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, endpoint := range cfg.Endpoints {
		t.Run(endpoint.Name, func(t *testing.T) {
			report := Check(t.Context(), endpoint, DefaultLimits())
			t.Logf("api %s, engine %s, model %s", report.API, report.Engine, report.Model)
			for _, f := range report.Figures {
				t.Log(f)
			}
			for _, r := range report.Refusals {
				t.Logf("%s is not offered (%s)", r.API, r.Reason)
			}
			for _, p := range report.Problems {
				t.Error(p)
			}
		})
	}
}

// fromURL is the configuration with one endpoint, whose protocol is detected.
func fromURL(t *testing.T, url string) *config.Config {
	t.Helper()
	cfg, err := config.FromURLs([]string{url})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Endpoints[0].API = ""
	return cfg
}

// simulated serves a simulated server until the test ends.
func simulated(t *testing.T, o simulator.Options) (base string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- simulator.New(o).Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

// quick is a server whose figures are of no interest.
func quick() simulator.Options {
	return simulator.Options{PrefillTokensPerSecond: 100_000, DecodeStep: time.Millisecond, DecodeStepPerSequence: -1}
}

// loose are limits that a busy machine keeps.
func loose() Limits {
	t := Tolerance{Factor: 1000, Slack: time.Minute}
	return Limits{TTFT: t, TPOT: t}
}

func TestSimulatorHasNoProblem(t *testing.T) {
	for engine, reasoning := range map[string]int{"vllm": 0, "sglang": 8} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			o := quick()
			o.Engine, o.ReasoningTokens = engine, reasoning
			report := Check(t.Context(), fromURL(t, simulated(t, o)).Endpoints[0], loose())
			for _, p := range report.Problems {
				t.Error(p)
			}
			if report.API != "openai-chat" || report.Engine != engine || report.Model != "simulated-8b" {
				t.Errorf("found api %s, engine %s, model %s", report.API, report.Engine, report.Model)
			}
			var apis []string
			for _, f := range report.Figures {
				apis = append(apis, f.API)
			}
			if len(apis) < 2 || apis[0] != "openai-chat" || !slices.Contains(apis, "openai-completions") {
				t.Errorf("checked %v, refused %v", apis, report.Refusals)
			}
		})
	}
}

func TestBrokenServersHaveProblems(t *testing.T) {
	f := func(url, want string) {
		t.Helper()
		endpoint := fromURL(t, url).Endpoints[0]
		endpoint.API, endpoint.Model = "openai-chat", "simulated-8b"
		report := Check(t.Context(), endpoint, loose())
		if len(report.Problems) == 0 || !strings.Contains(report.Problems[0].String(), want) {
			t.Errorf("%s: problems %v, want %q first", url, report.Problems, want)
		}
	}
	base := simulated(t, quick())
	f(base+"/fault/cut_before_finish", "openai-chat: truncated")
	f(base+"/fault/html_200", "openai-chat: protocol_error")
	f(base+"/fault/status_500", "openai-chat: http_error")
	f(base+"/nowhere", "openai-chat: http_error")

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	f("http://"+l.Addr().String(), "openai-chat: connect_error")
}
