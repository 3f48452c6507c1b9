package prober

import (
	"errors"
	"math"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// A lack of ours is no result of the endpoint, whatever the module asks.
func TestShortageIsASkip(t *testing.T) {
	s := chat(t, answerOne)
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EADDRNOTAVAIL} {
		for name, m := range map[string]*config.Module{"single": newModule(), "pair": newPair(), "burst": newBurst(1, 4)} {
			for _, api := range []string{"openai-chat", ""} {
				cfg := newEndpoint(t, s.URL)
				if cfg.API = api; api == "" {
					cfg.Model = ""
				}
				p := newProber(t, cfg, m)
				p.endpoint.options.Dialer.net.Control = func(string, string, syscall.RawConn) error { return e }
				results, why := p.Run(t.Context(), time.Time{})
				if len(results) > 0 || why == nil || why.Reason != result.SkipResources || !strings.Contains(why.Text, e.Error()) {
					t.Errorf("%s, api %q, %v: %d results, skip %+v", name, api, e, len(results), why)
				}
			}
		}
	}
}

// What the requests before the lack took is spent.
func TestShortageInMidRun(t *testing.T) {
	s := chat(t, answerOne)
	p := newProber(t, newEndpoint(t, s.URL), newPair())
	d := p.endpoint.options.Dialer
	stamps, n := d.net.Control, 0
	p.endpoint.lookedUpAt = time.Now() // no question for the models between
	d.net.Control = func(network, address string, c syscall.RawConn) error {
		if n++; n > 1 {
			return syscall.EMFILE
		}
		return stamps(network, address, c)
	}
	results, why := p.Run(t.Context(), time.Time{})
	if len(results) > 0 || why == nil || why.Reason != result.SkipResources || len(why.Spent) != 2 || why.Spent[0].Outcome != result.Success {
		t.Errorf("%d results, skip %+v", len(results), why)
	}
}

// A process without descriptors, by address and by name.
func TestShortageOfDescriptors(t *testing.T) {
	if target := os.Getenv("SHORTAGE_TARGET"); target != "" {
		probeWithoutDescriptors(t, target)
		return
	}
	s := chat(t, answerOne)
	for _, target := range []string{s.URL, strings.Replace(s.URL, "127.0.0.1", "localhost", 1), "http://inference.example:8000"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestShortageOfDescriptors$")
		cmd.Env = append(os.Environ(), "SHORTAGE_TARGET="+target, "GODEBUG=netdns=go")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", target, err, out)
		}
	}
}

func probeWithoutDescriptors(t *testing.T, target string) {
	p := newProber(t, newEndpoint(t, target), newModule())
	u, why, err := p.Users(t.Context())
	if why != nil || err != nil {
		t.Fatal(why, err)
	}
	defer u.Close()
	// The resolver reads its settings once.
	if _, err := net.DefaultResolver.LookupHost(t.Context(), "localhost"); err != nil {
		t.Fatal(err)
	}
	err = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 64, Max: 64})
	var open []*os.File // those that nothing refers to are closed
	defer func() { runtime.KeepAlive(open) }()
	for err == nil {
		var f *os.File
		f, err = os.Open(os.DevNull)
		open = append(open, f)
	}
	if !errors.Is(err, syscall.EMFILE) {
		t.Fatal(err)
	}
	results, why := p.Run(t.Context(), time.Time{})
	if len(results) > 0 || why == nil || why.Reason != result.SkipResources {
		for _, r := range results {
			t.Log(r.Outcome, r.Err)
		}
		t.Errorf("%d results, skip %v", len(results), why)
	}
	r := u.Ask(t.Context(), 0, time.Time{}, nil)
	if why, ok := errors.AsType[*result.Skip](r.Err); !ok || why.Reason != result.SkipResources || r.Outcome == result.Success {
		t.Errorf("a user: %s: %v", r.Outcome, r.Err)
	}
}

// A load for whose users this process may not open connections says so before it begins.
func TestUsersNeedDescriptors(t *testing.T) {
	f := func(users int, want result.SkipReason) {
		t.Helper()
		m := newModule()
		m.Load = &config.LoadTest{Users: []int{1, users}}
		u, why, err := newProber(t, newEndpoint(t, "http://127.0.0.1:9"), m).Users(t.Context())
		if u != nil {
			u.Close()
		}
		if err != nil || (u != nil) != (want == "") || want != "" && (why.Reason != want || !strings.Contains(why.Text, "ulimit -n")) {
			t.Errorf("%d users: users %v, skip %v, error %v", users, u, why, err)
		}
	}
	f(2, "")
	f(math.MaxInt32, result.SkipResources)
}
