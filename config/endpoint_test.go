package config

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"gopkg.in/yaml.v3"
)

// A page of a llama.cpp router may say that nothing is to be loaded for it, which
// holds either way. Nobody may say that it is.
func TestPageURLAutoload(t *testing.T) {
	f := func(query, want string) {
		t.Helper()
		u, err := parsePageURL("http://router:8080/metrics" + query)
		switch {
		case err == nil && want == "":
			t.Errorf("%s: no error", query)
		case err != nil && want != "":
			t.Errorf("%s: %v", query, err)
		case err == nil && u.RawQuery != want:
			t.Errorf("%s: got the query %q, want %q", query, u.RawQuery, want)
		}
	}
	f("?model=a", "model=a")
	f("?model=a&autoload=false", "model=a")
	f("?autoload=false&model=acme%2Fa", "model=acme%2Fa")
	f("?model=a&autoload=true", "")
	f("?model=a&autoload=1", "")
	f("?autoload=false", "")
	f("?model=&autoload=false", "")
	f("?model=a&autoload=false&key=b", "")
	f("?model=a&autoload=false&autoload=false", "")
	f("?autoload=false&model=a&autoload=true", "")
}

// Both spellings are one page.
func TestPageURLAutoloadTwice(t *testing.T) {
	_, err := Parse([]byte("endpoints: [{url: http://a, servers: {urls: ['http://r/metrics?model=a', 'http://r/metrics?model=a&autoload=false']}}]"), "f.yml")
	const want = "f.yml:1: endpoints[0].servers.urls[1]: the same page as endpoints[0].servers.urls[0]"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestBytes(t *testing.T) {
	f := func(text string, want Bytes, shown string) {
		t.Helper()
		c, err := Parse([]byte("endpoints: [{url: http://h, hardware: {weights: "+text+"}}]"), "f.yml")
		if err != nil {
			t.Error(err)
			return
		}
		got := c.Endpoints[0].Hardware.Weights
		if got != want {
			t.Errorf("%s: got %d bytes, want %d", text, got, want)
		}
		if got.String() != shown {
			t.Errorf("%s: shown as %s, want %s", text, got, shown)
		}
	}
	f("16GB", 16_000_000_000, "16GB")
	f("15GiB", 16_106_127_360, "15GiB")
	f("3.35TB", 3_350_000_000_000, "3350GB")
	f("14.5GB", 14_500_000_000, "14500MB")
	f("0.5KiB", 512, "512")
	f("1kB", 1000, "1kB")
	f("2MB", 2_000_000, "2MB")
	f("2MiB", 2_097_152, "2MiB")
	f("1TiB", 1_099_511_627_776, "1TiB")
	f("16000000001", 16_000_000_001, "16000000001")
	f(`"4096"`, 4096, "4KiB")
	f("1", 1, "1")
}

// FuzzBytes holds that a size which can be read is printed as one that reads
// the same.
func FuzzBytes(f *testing.F) {
	for _, s := range []string{"16GB", "15GiB", "3.35TB", "0", "1", "1000TB", "1e9", "-1", "99999999999999999999999", ".5GB", "1.GB", "0x10", "1B"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, ok := parseBytes(s)
		if !ok || v < 1 || v > maxBytes {
			return
		}
		again, ok := parseBytes(Bytes(v).String())
		if !ok || again != v {
			t.Errorf("%q is %v, printed as %q, read back as %v (%t)", s, v, Bytes(v), again, ok)
		}
	})
}

// TestHardwarePrints checks what the page of the configuration shows.
func TestHardwarePrints(t *testing.T) {
	h := Hardware{GPU: "H100 SXM", GPUs: 2, MemoryBandwidth: 3_350_000_000_000, Weights: 16_000_000_000}
	got, err := yaml.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	want := "gpu: H100 SXM\ngpus: 2\nmemory_bandwidth: 3350GB\nweights: 16GB\n"
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if strings.Contains(string(got), "uuids") {
		t.Error("what is left out is printed")
	}
}

func milliseconds(n int) model.Duration { return model.Duration(time.Duration(n) * time.Millisecond) }

// A module's own objectives take the place of the endpoint's as a whole, and
// these that of the built-in module's: what they leave out is nobody's.
func TestSLOWith(t *testing.T) {
	endpoint := SLO{Objective: 0.999, TTFT: milliseconds(500), TPOT: milliseconds(50), E2E: seconds(90), Fluidity: 0.9, CorrectCoordinatedOmission: true}
	f := func(name string, want ...SLO) {
		t.Helper()
		c, err := Load("testdata/slo.good.yml", "")
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range c.Endpoints {
			if diff := cmp.Diff(want[i], e.SLOWith(c.Modules[name])); diff != "" {
				t.Errorf("%s with %s (-want +got):\n%s", e.Name, name, diff)
			}
		}
	}
	alone := SLO{Objective: 0.99}
	f("interactive", endpoint, SLO{Objective: 0.000001}, alone, SLO{Objective: 0.99, TTFT: seconds(2), TPOT: milliseconds(200)})
	f("code-completion", endpoint, SLO{Objective: 0.000001}, alone, SLO{Objective: 0.99, E2E: seconds(2)})
	f("long-context", endpoint, SLO{Objective: 0.000001}, alone, alone)
	f("none", endpoint, SLO{Objective: 0.000001}, alone, alone)
	long, open := SLO{Objective: 0.99, TTFT: seconds(5)}, alone
	f("long", long, long, long, long)
	f("open", open, open, open, open)
	f("rag", long, long, long, long)
	scored := SLO{Objective: 0.999, E2E: seconds(90)}
	f("scored", scored, SLO{Objective: 0.000001}, alone, alone)
	f("batch", endpoint, SLO{Objective: 0.000001}, alone, alone)
}

// Bursts are judged by nothing; all else is.
func TestJudged(t *testing.T) {
	c, err := Load("testdata/slo.good.yml", "")
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range c.Modules {
		if got, want := m.Judged(), name != "batch"; got != want {
			t.Errorf("%s: got %t, want %t", name, got, want)
		}
	}
}

func TestPrice(t *testing.T) {
	f := func(p *Price, perHour float64, perToken bool) {
		t.Helper()
		if p.InUSD().PerHour != perHour || p.PerToken() != perToken {
			t.Errorf("%+v: got %v an hour and per token %t, want %v and %t", p, p.InUSD().PerHour, p.PerToken(), perHour, perToken)
		}
	}
	f(nil, 0, false)
	f(&Price{GPUs: 1}, 0, false)
	f(&Price{GPUHourUSD: 3.25, GPUs: 2}, 6.5, false)
	f(&Price{GPUs: 1, InputUSD: 3}, 0, true)
	f(&Price{GPUs: 1, OutputUSD: 3}, 0, true)
}

// TestSigV4Keys checks that keys never come from two places.
func TestSigV4Keys(t *testing.T) {
	setEnv(t)
	f := func(keys string, want SigV4) {
		t.Helper()
		c, err := Parse([]byte("endpoints: [{url: http://h, sigv4: {region: us-east-1"+keys+"}}]"), "f.yml")
		if err != nil {
			t.Error(err)
			return
		}
		want.Region = "us-east-1"
		if diff := cmp.Diff(want, *c.Endpoints[0].SigV4); diff != "" {
			t.Errorf("%s: %s", keys, diff)
		}
	}
	id, secret, token := "AKIDFROMENVIRONMENT", promconfig.Secret("secret-from-environment"), promconfig.Secret("token-from-environment")
	f("", SigV4{Service: "bedrock", AccessKeyID: id, SecretAccessKey: secret, SessionToken: token})
	f(", service: x", SigV4{Service: "x", AccessKeyID: id, SecretAccessKey: secret, SessionToken: token})
	f(", access_key_id: , secret_access_key: ", SigV4{Service: "bedrock", AccessKeyID: id, SecretAccessKey: secret, SessionToken: token})
	f(", session_token: t", SigV4{Service: "bedrock", AccessKeyID: id, SecretAccessKey: secret, SessionToken: "t"})
	f(", access_key_id: A, secret_access_key: s", SigV4{Service: "bedrock", AccessKeyID: "A", SecretAccessKey: "s", SessionToken: ""})
	f(", access_key_id: A, secret_access_key: s, session_token: t", SigV4{Service: "bedrock", AccessKeyID: "A", SecretAccessKey: "s", SessionToken: "t"})
	t.Setenv("AWS_SESSION_TOKEN", "")
	f("", SigV4{Service: "bedrock", AccessKeyID: id, SecretAccessKey: secret, SessionToken: ""})
}

// The first part of the schedule that applies counts; hours may go over midnight, and days end
// before until.
func TestPriceSchedule(t *testing.T) {
	p := &Price{GPUHourUSD: 3, GPUs: 2, Plan: "on_demand", InputUSD: 4, CachedInputUSD: 1, OutputUSD: 16, Schedule: []PricePart{
		{Hours: "22:00-06:00", GPUHour: 1, Plan: "spot"},
		{Hours: "12:00-13:00", Output: 8},
		{From: "2026-03-01", Until: "2026-04-01", GPUHour: 2, GPUs: 4, Plan: "reserved"},
	}}
	f := func(at string, perHour, output float64, plan string) {
		t.Helper()
		when, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		got := p.At(when)
		if got.InUSD().PerHour != perHour || got.InUSD().Output != output || got.Plan != plan || got.InUSD().Input != 4 {
			t.Errorf("%s: %+v; want %v an hour, output for %v, %s", at, got, perHour, output, plan)
		}
	}
	f("2026-02-28T21:59:59Z", 6, 16, "on_demand")
	f("2026-02-28T22:00:00Z", 2, 16, "spot")
	f("2026-03-01T05:59:59Z", 2, 16, "spot") // before the days, which apply too
	f("2026-03-01T06:00:00Z", 8, 16, "reserved")
	f("2026-03-31T12:30:00Z", 6, 8, "on_demand") // the second part leaves the rest as it is
	f("2026-04-01T06:00:00Z", 6, 16, "on_demand")
	f("2026-02-28T12:59:00Z", 6, 8, "on_demand")
	f("2026-02-28T13:00:00Z", 6, 16, "on_demand")
	f("2026-02-28T23:30:00+02:00", 6, 16, "on_demand") // 21:30 in UTC
	if (*Price)(nil).At(time.Time{}) != nil {
		t.Error("no price has one")
	}
}

// A rate of 0.0125 makes 80 rupees one dollar.
func TestPriceInUSD(t *testing.T) {
	p := &Price{
		Currency: "INR", GPUHour: 240, GPUs: 2, Input: 80, CachedInput: 40, Output: 160, CacheWrite: 120,
		Schedule: []PricePart{{Hours: "00:00-12:00", Output: 80}},
	}
	if p.PerToken() || p.InUSD().PerHour != 0 || p.USD(1e6, 0, 1e6) != 0 {
		t.Errorf("without a rate: %+v; want none", p.InUSD())
	}
	if p.InCurrency() != (Prices{480, 80, 40, 120, 160}) {
		t.Errorf("%+v", p.InCurrency())
	}
	p.USDRate = 0.0125
	if !p.PerToken() || p.InUSD() != (Prices{6, 1, 0.5, 1.5, 2}) {
		t.Errorf("%+v; want 6 an hour, and 1, 0.5, 1.5, 2", p.InUSD())
	}
	// 600,000 at 1 $, 400,000 cached ones at 0.50, and 500,000 at 2; at night at 1
	if got := p.USD(1e6, 4e5, 5e5); got != 1.8 {
		t.Errorf("%v $, want 1.80", got)
	}
	night := time.Date(2026, 1, 1, 3, 0, 0, 0, time.UTC)
	if got := p.At(night).USD(1e6, 4e5, 5e5); got != 1.3 {
		t.Errorf("at night: %v $, want 1.30", got)
	}
}

// The bytes of a model follow from the formats' definitions: Llama 3.1 8B has
// 8.03e9 weights; a block of 32 in MX has one byte of scale, one of 16 in NVFP4.
func TestReadBytes(t *testing.T) {
	for _, tt := range []struct {
		hardware Hardware
		want     Bytes
	}{
		{Hardware{}, 0},
		{Hardware{Weights: 5, WeightsPrecision: "int4"}, 5},
		{Hardware{WeightsPrecision: "bf16"}, 0},
		{Hardware{Parameters: 8.03e9, WeightsPrecision: "fp32"}, 32_120_000_000},
		{Hardware{Parameters: 8.03e9, WeightsPrecision: "bf16"}, 16_060_000_000},
		{Hardware{Parameters: 8.03e9, WeightsPrecision: "fp16"}, 16_060_000_000},
		{Hardware{Parameters: 8.03e9, WeightsPrecision: "fp8"}, 8_030_000_000},
		{Hardware{Parameters: 32e9, WeightsPrecision: "mxfp8"}, 33_000_000_000},
		{Hardware{Parameters: 8.03e9, WeightsPrecision: "int8"}, 8_030_000_000},
		{Hardware{Parameters: 8.03e9, WeightsPrecision: "fp4"}, 4_015_000_000},
		{Hardware{Parameters: 32e9, WeightsPrecision: "mxfp4"}, 17_000_000_000},
		{Hardware{Parameters: 32e9, WeightsPrecision: "nvfp4"}, 18_000_000_000},
		{Hardware{Parameters: 8.03e9, WeightsPrecision: "int4"}, 4_015_000_000},
	} {
		if got := tt.hardware.ReadBytes(); got != tt.want {
			t.Errorf("%+v: %d bytes, want %d", tt.hardware, int64(got), int64(tt.want))
		}
	}
	for _, p := range Precisions() {
		if h := (Hardware{Parameters: 1e9, WeightsPrecision: p}); h.ReadBytes() <= 0 {
			t.Errorf("%s has no size", p)
		}
	}
}

func TestProbeAllows(t *testing.T) {
	f := func(pattern string, allowed, refused []string) {
		t.Helper()
		p := Probe{Allow: []string{"another", pattern}}
		check := func(urls []string, want bool) {
			t.Helper()
			for _, s := range urls {
				u, err := url.Parse(s)
				if err != nil {
					t.Fatal(err)
				}
				if got := p.Allows(u); got != want {
					t.Errorf("%s allows %s: %t", pattern, s, got)
				}
			}
		}
		check(allowed, true)
		check(refused, false)
	}
	f("h", []string{"http://h", "https://h", "http://H:8000/v1", "http://h./"}, []string{"http://h.internal", "http://a.h", "http://hh", "http://", "h"})
	f("h:8000", []string{"http://h:8000", "https://h:8000"}, []string{"http://h", "http://h:80", "http://h:80000", "http://a:8000"})
	f("h:80", []string{"http://h", "http://h:80"}, []string{"https://h", "ftp://h"})
	f("h:443", []string{"https://h", "http://h:443"}, []string{"http://h"})
	f("*.Internal.", []string{"http://a.internal", "http://a.b.INTERNAL:1"}, []string{"http://internal", "http://.internal", "http://ainternal", "http://a.internal.com"})
	f("*.internal:8000", []string{"http://a.internal:8000"}, []string{"http://a.internal", "http://internal:8000"})
	f("10.0.0.7", []string{"http://10.0.0.7:8000"}, []string{"http://110.0.0.7", "http://10.0.0.70", "http://10x0.0.7"})
	f("[::1]:8000", []string{"http://[::1]:8000"}, []string{"http://[::1]", "http://[::2]:8000"})
	f("[2001:DB8::1]", []string{"http://[2001:db8::1]:8000"}, []string{"http://[2001:db8::2]"})

	u := &url.URL{Scheme: "http", Host: "h"}
	if none := (Probe{}); none.Allows(u) {
		t.Error("an empty list allows a host")
	}
}

// The settings are those of a page of TensorRT-LLM 1.2; a server that quantizes, or does not say, shows no precision of its weights.
func TestStoredPrecision(t *testing.T) {
	for _, tt := range []struct{ precision, quantization, want string }{
		{"bfloat16", "None", "bf16"},
		{"float16", "none", "fp16"},
		{"float32", "None", "fp32"},
		{"bfloat16", "FP8", ""},
		{"bfloat16", "", ""},
		{"auto", "None", ""},
		{"", "None", ""},
	} {
		if got := StoredPrecision(map[Setting]string{Precision: tt.precision, Quantization: tt.quantization}); got != tt.want {
			t.Errorf("%q, %q: %q, want %q", tt.precision, tt.quantization, got, tt.want)
		}
	}
}
