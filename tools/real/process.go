package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// readyWithin is how long a server may take to start on a busy machine.
const readyWithin = 10 * time.Minute

// process is a server that runs, with the tee in front of it.
type process struct {
	server *server
	cmd    *exec.Cmd
	exited chan struct{}
	port   string
	listed string // the model's name, where the path that shows readiness lists models
	tee    *tee
	log    string
}

// start starts a server under a model's name, on a free port or on the one
// given, and waits until it answers.
func (l *lab) start(ctx context.Context, s *server, model, port string, behind []*process) (*process, error) {
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
	p := &process{server: s, port: port, exited: make(chan struct{}), log: filepath.Join(l.work, s.name+"-"+port+".log")}
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
	if err := p.run(fill, filepath.Join(l.work, s.home())); err != nil {
		return nil, err
	}
	if err := p.await(ctx); err != nil {
		p.stop()
		return nil, cannot("does not start: %v", err)
	}
	p.tee, err = newTee(ctx, "127.0.0.1:"+port)
	return p, err
}

func (p *process) run(fill *strings.Replacer, directory string) error {
	log, err := os.Create(p.log)
	if err != nil {
		return err
	}
	defer log.Close()
	var argv []string
	for _, a := range p.server.command {
		argv = append(argv, fill.Replace(a))
	}
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = directory, log, log
	p.cmd.Env = append(os.Environ(), "HF_HUB_OFFLINE=1", "DO_NOT_TRACK=1", "PATH="+filepath.Join(directory, "bin")+":"+os.Getenv("PATH"))
	for _, e := range p.server.env {
		p.cmd.Env = append(p.cmd.Env, fill.Replace(e))
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return cannot("does not start: %v", err)
	}
	go func() {
		p.cmd.Wait()
		close(p.exited)
	}()
	return nil
}

// await waits until the server answers with 200 and lists the model.
func (p *process) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+p.port+p.server.ready, nil)
		if err != nil {
			return err
		}
		if p.server.key != "" {
			request.Header.Set("Authorization", "Bearer "+p.server.key)
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			text, _ := io.ReadAll(response.Body)
			response.Body.Close()
			if response.StatusCode == http.StatusOK && strings.Contains(string(text), p.listed) {
				return nil
			}
		}
		select {
		case <-p.exited:
			text, _ := os.ReadFile(p.log)
			return fmt.Errorf("it ended: %s", lastLine(string(text)))
		case <-ctx.Done():
			text, _ := os.ReadFile(p.log)
			return fmt.Errorf("not ready: %s", lastLine(string(text)))
		case <-time.After(time.Second):
		}
	}
}

// signal sends a signal to the server and all that it started.
func (p *process) signal(s syscall.Signal) error {
	if err := syscall.Kill(-p.cmd.Process.Pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// stop ends the server, by force if it does not end soon.
func (p *process) stop() {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(20 * time.Second):
	}
	p.signal(syscall.SIGKILL) // and what is left of its group
	<-p.exited
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}
