package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/tools/lab/process"
)

// readyWithin is how long a server may take to start on a busy machine.
const readyWithin = 10 * time.Minute

// running is a server that runs, with the tee in front of it.
type running struct {
	*process.Process
	server *server
	port   string
	listed string // the model's name, where the path that shows readiness lists models
	tee    *tee
}

// start starts a server under a model's name, on a free port or on the one
// given, and waits until it answers.
func (l *lab) start(ctx context.Context, s *server, model, port string, behind []*running) (*running, error) {
	if s.missing != "" {
		return nil, cannot("%s", s.missing)
	}
	bin, err := l.environment(ctx, s)
	if err != nil {
		return nil, cannot("cannot be installed: %v", err)
	}
	models := ""
	if strings.Contains(strings.Join(s.command, " "), "{models}") {
		if models, err = l.models(ctx); err != nil {
			return nil, err
		}
	}
	if port == "" {
		if port, err = freePort(); err != nil {
			return nil, err
		}
	}
	free, err := freePort()
	if err != nil {
		return nil, err
	}
	p := &running{server: s, port: port}
	if strings.HasSuffix(s.ready, "/models") {
		p.listed = strconv.Quote(model)
	}
	configFile := filepath.Join(l.work, s.name+"-"+port+".yml")
	pairs := []string{"{bin}", bin, "{models}", models, "{port}", port, "{name}", model, "{config}", configFile, "{free}", free, "{exporter}", l.exporter}
	for i, b := range behind {
		pairs = append(pairs, fmt.Sprintf("{behind%d}", i), "http://127.0.0.1:"+b.port)
	}
	fill := strings.NewReplacer(pairs...)
	if err := os.WriteFile(configFile, []byte(fill.Replace(s.config)), 0o644); err != nil {
		return nil, err
	}
	if err := p.run(ctx, fill, filepath.Join(l.work, s.home()), filepath.Join(l.work, s.name+"-"+port+".log")); err != nil {
		return nil, err
	}
	if err := p.await(ctx); err != nil {
		p.Stop()
		return nil, cannot("does not start: %v", err)
	}
	p.tee, err = newTee(ctx, "127.0.0.1:"+port)
	return p, err
}

func (p *running) run(ctx context.Context, fill *strings.Replacer, directory, log string) (err error) {
	var argv []string
	for _, a := range p.server.command {
		argv = append(argv, fill.Replace(a))
	}
	env := []string{"HF_HUB_OFFLINE=1", "DO_NOT_TRACK=1", "PATH=" + filepath.Join(directory, "bin") + ":" + os.Getenv("PATH")}
	for _, e := range p.server.env {
		env = append(env, fill.Replace(e))
	}
	p.Process, err = process.Start(context.WithoutCancel(ctx), process.Options{Dir: directory, Env: env, Log: log}, argv[0], argv[1:]...)
	if err != nil {
		return cannot("does not start: %v", err)
	}
	return nil
}

// await waits until the server answers with 200 and lists the model.
func (p *running) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	return p.Await(ctx, func() bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+p.port+p.server.ready, nil)
		if err != nil {
			return false
		}
		if p.server.key != "" {
			request.Header.Set("Authorization", "Bearer "+p.server.key)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return err == nil && response.StatusCode == http.StatusOK && strings.Contains(string(text), p.listed)
	})
}

func freePort() (string, error) {
	address, err := process.FreeAddress("127.0.0.1")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(address)
	return port, err
}
