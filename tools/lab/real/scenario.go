package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// bench is a server that is being checked.
type bench struct {
	*lab
	server *server
	behind []*running
	front  *running
	model  string
	daemon *daemon
	config string // file of the exporter
	body   []byte // of a request by the first api, for load
	path   string // and where it was sent
}

// scenario is one check of a server.
type scenario struct {
	name string
	run  func(context.Context, *bench) (string, error)
}

// scenarios are the checks of a server, in their order.
func scenarios(s *server) []scenario {
	all := []scenario{{"detect", detect}, {"probe without flags", probePlain}}
	for _, name := range s.apis {
		all = append(all, scenario{"probe by " + name, probeBy(name)})
	}
	if s.adapter != "" {
		all = append(all, scenario{"adapter", adapter})
	}
	if s.slots > 0 {
		all = append(all, scenario{"knee of bursts", knee})
	}
	all = append(all, scenario{"end-to-end check", endToEnd})
	if s.users {
		all = append(all, scenario{"users with long and short prompts", users})
	}
	all = append(all,
		scenario{"daemon: every module", daemonModules},
		scenario{"daemon: tokens", daemonTokens},
		scenario{"daemon: server values", daemonValues},
		scenario{"daemon: prefix cache", daemonCache},
		scenario{"overload", overload},
	)
	if slices.Contains(s.behind, "spare") { // whose page has other models from then on
		all = append(all, scenario{"fallback", fallback})
	}
	return append(all,
		scenario{"another model name", anotherModel},
		scenario{"hung for 30 s", hung},
		scenario{"killed in a stream", killed},
	)
}

// start starts what stands behind the server, and the server.
func (b *bench) start(ctx context.Context, model string) error {
	b.model = model
	for i, name := range b.server.behind {
		if i < len(b.behind) {
			continue // one that was not stopped
		}
		p, err := b.lab.start(ctx, find(name), model, "", nil)
		if err != nil {
			return fmt.Errorf("%s behind it: %w", name, err)
		}
		b.behind = append(b.behind, p)
	}
	port := ""
	if b.front != nil {
		port = b.front.port
	}
	front, err := b.lab.start(ctx, b.server, model, port, b.behind)
	if err != nil {
		return err
	}
	if b.front != nil {
		front.tee = b.front.tee // whose port the exporter knows
	}
	b.front = front
	return nil
}

func (b *bench) stop() {
	if b.daemon != nil {
		b.daemon.Stop()
	}
	for _, p := range append([]*running{b.front}, b.behind...) {
		if p != nil {
			p.Stop()
		}
	}
}

// engines are the processes that run a model: those behind a gateway.
func (b *bench) engines() []*running {
	if len(b.behind) > 0 {
		return b.behind
	}
	return []*running{b.front}
}

// probe probes through the relay as the configuration says.
func (b *bench) probe(ctx context.Context, module string, args ...string) ([]probeResult, error) {
	return b.lab.probe(ctx, append(args, "--config.file="+b.config, "--module="+module, "real")...)
}

// compare probes five times, compares each with its recording and keeps one.
func (b *bench) compare(ctx context.Context, name string, args ...string) (string, error) {
	results, err := b.lab.probe(ctx, append(args, "-n", "5", "--timeout=2m")...)
	if err != nil {
		return "", err
	}
	var c comparison
	for _, r := range results {
		e := b.front.tee.of(r.TraceID)
		c.add(r, e)
		if e != nil && r.Outcome == "success" && b.body == nil {
			b.body, b.path = e.body, e.path
		}
		if e != nil {
			b.keep(name, e)
		}
	}
	return c.verdict()
}

// keep writes a raw reply where a person can look at it.
func (b *bench) keep(name string, e *exchange) {
	directory := filepath.Join(b.work, "captures")
	os.MkdirAll(directory, 0o755)
	os.WriteFile(filepath.Join(directory, b.server.name+"_"+name+".txt"), []byte(e.text()), 0o644)
	os.WriteFile(filepath.Join(directory, b.server.name+"_"+name+".request.txt"), e.body, 0o644)
}

func detect(ctx context.Context, b *bench) (string, error) {
	output, err := exec.CommandContext(ctx, b.exporter, "detect", b.front.tee.url()).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, lastLine(string(output)))
	}
	want := "# api " + b.server.apis[0]
	if b.server.engine != "" {
		want += ", engine " + b.server.engine
	}
	_, found, _ := strings.Cut(string(output), "\n") // the first line names the schema
	first, rest, _ := strings.Cut(found, "\n")
	if !strings.HasPrefix(first, want) {
		return "", fmt.Errorf("found %q, want %q", first, want)
	}
	if !strings.Contains(rest, "api: "+b.server.apis[0]) || b.server.model == "" && b.server.key == "" && !strings.Contains(rest, "model: "+b.model) {
		return "", fmt.Errorf("the configuration it prints lacks api %s or model %s", b.server.apis[0], b.model)
	}
	return strings.TrimPrefix(first, "# "), nil
}

func probePlain(ctx context.Context, b *bench) (string, error) {
	if b.server.key != "" || b.server.model != "" {
		return b.compare(ctx, "probe", "--config.file="+b.config, "real")
	}
	return b.compare(ctx, "probe", b.front.tee.url())
}

func probeBy(name string) func(context.Context, *bench) (string, error) {
	return func(ctx context.Context, b *bench) (string, error) {
		return b.compare(ctx, name, "--api="+name, "--model="+b.model, "--config.file="+b.config, "real")
	}
}

// revive restarts a server that a check before has left without an answer.
func (b *bench) revive(ctx context.Context) error {
	if b.recovers(ctx) == nil {
		return nil
	}
	b.front.Stop()
	return b.start(ctx, b.model)
}

// longProbe starts a probe with a long answer and waits until its stream runs.
func (b *bench) longProbe(ctx context.Context, module string) (<-chan probeResult, error) {
	if err := b.revive(ctx); err != nil {
		return nil, err
	}
	b.front.tee.forget()
	done := make(chan probeResult, 1)
	go func() {
		results, err := b.probe(ctx, module)
		if err != nil {
			results = []probeResult{{Outcome: "none", Error: err.Error()}}
		}
		done <- results[0]
	}()
	for range 600 {
		for _, e := range b.front.tee.exchanges() {
			if raw := readReply(e); len(raw.tokens) > 3 {
				return done, nil
			}
		}
		select {
		case r := <-done:
			return nil, cannot("no long stream to disturb: the probe ended with %s %s", r.Outcome, r.Error)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil, errors.New("no stream after 30 s")
}

// hung stops the engines for 30 s, in the middle of a stream.
func hung(ctx context.Context, b *bench) (string, error) {
	if !b.generates() {
		return "", notOffered{"it does not stream"}
	}
	stream, err := b.longProbe(ctx, "long")
	if err != nil {
		return "", err
	}
	if err := b.signal(syscall.SIGSTOP); err != nil {
		return "", err
	}
	resume := time.After(30 * time.Second)
	first := <-stream
	second, err := b.probe(ctx, "long")
	<-resume
	if err := b.signal(syscall.SIGCONT); err != nil {
		return "", err
	}
	if err != nil {
		return "", err
	}
	if first.Outcome != "timeout_stall" || !strings.HasPrefix(second[0].Outcome, "timeout") {
		return "", fmt.Errorf("stopped in the stream: %s, want timeout_stall; asked while stopped: %s, want a timeout", first.Outcome, second[0].Outcome)
	}
	if err := b.recovers(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("the running stream: timeout_stall; a new request: %s; success after it went on", second[0].Outcome), nil
}

func (b *bench) generates() bool {
	first := b.server.apis[0]
	return first != "openai-embeddings" && first != "rerank" && first != "tei"
}

func (b *bench) signal(s syscall.Signal) error {
	for _, p := range b.engines() {
		if err := p.Signal(s); err != nil {
			return err
		}
	}
	return nil
}

// recovers waits for a probe that succeeds.
func (b *bench) recovers(ctx context.Context) error {
	var last probeResult
	for range 4 {
		results, err := b.probe(ctx, "short")
		if err != nil {
			return err
		}
		if last = results[0]; last.Outcome == "success" {
			return nil
		}
		time.Sleep(10 * time.Second)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := b.front.await(ctx); err != nil {
		return cannot("the server itself does not answer again")
	}
	return fmt.Errorf("no success afterwards: %s: %s", last.Outcome, last.Error)
}

// killed kills the server in the middle of a stream, and asks while it is gone.
func killed(ctx context.Context, b *bench) (string, error) {
	want := "truncated"
	var stream <-chan probeResult
	if b.generates() {
		var err error
		if stream, err = b.longProbe(ctx, "long"); err != nil {
			return "", err
		}
	}
	if err := b.front.Signal(syscall.SIGKILL); err != nil {
		return "", err
	}
	<-b.front.Exited()
	text := ""
	if stream != nil {
		r := <-stream
		if r.Outcome != want {
			return "", fmt.Errorf("the cut stream is %s (%s), want %s", r.Outcome, r.Error, want)
		}
		text = "the cut stream: " + want + "; "
	}
	gone, err := b.lab.probe(ctx, "--api="+b.server.apis[0], "--model="+b.model, "http://127.0.0.1:"+b.front.port)
	if err != nil {
		return "", err
	}
	if gone[0].Outcome != "connect_error" {
		return "", fmt.Errorf("asked while it is gone: %s, want connect_error", gone[0].Outcome)
	}
	return text + "asked while it is gone: connect_error", nil
}
