package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// lab is where everything is: nothing outside of work is written but the
// evidence and the document.
type lab struct {
	root      string // the repository
	directory string // tools/lab/real
	work      string // ignored by git: environments, models, logs, captures
	exporter  string // the program
	e2e       string // the tests of make e2e
}

func newLab() (*lab, error) {
	directory, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	l := &lab{directory: directory, root: filepath.Join(directory, "..", "..", "..")}
	l.work = filepath.Join(l.root, ".tools", "real")
	l.exporter, l.e2e = filepath.Join(l.work, "inference_exporter"), filepath.Join(l.work, "e2e.test")
	return l, os.MkdirAll(l.work, 0o755)
}

// build builds the program and its end-to-end check.
func (l *lab) build(ctx context.Context) error {
	if err := l.run(ctx, "go", "build", "-o", l.exporter, "."); err != nil {
		return err
	}
	return l.run(ctx, "go", "test", "-c", "-o", l.e2e, "./internal/e2e")
}

// run runs a command in the repository; its output is part of an error.
func (l *lab) run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = l.root
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", filepath.Base(name), args[0], err, lastLine(string(output)))
	}
	return nil
}

// lastLine is the last line of a log that has text in it.
func lastLine(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	return last[:min(len(last), 300)]
}

// environment makes the Python environment of a server, or adds what it needs to
// that of another row, and returns the folder with the programs.
func (l *lab) environment(ctx context.Context, s *server) (bin string, err error) {
	directory := filepath.Join(l.work, s.home())
	if s.environment != "" {
		if _, err := l.environment(ctx, find(s.environment)); err != nil {
			return "", err
		}
	} else if len(s.install) == 0 {
		return "", os.MkdirAll(directory, 0o755)
	}
	return filepath.Join(directory, "bin"), l.install(ctx, s, directory)
}

// home is the name of the folder of a server's environment.
func (s *server) home() string {
	if s.environment != "" {
		return s.environment
	}
	return s.name
}

// install installs what is not there yet; each install of a server is the
// arguments of one call of pip.
func (l *lab) install(ctx context.Context, s *server, directory string) error {
	done := filepath.Join(directory, "installed")
	if s.environment != "" {
		done += "-" + s.name
	}
	want := fmt.Sprint(s.install)
	if have, err := os.ReadFile(done); err == nil && string(have) == want || len(s.install) == 0 {
		return nil
	}
	if s.environment == "" {
		if err := l.run(ctx, "python3", "-m", "venv", directory); err != nil {
			return err
		}
	}
	for file, text := range s.files {
		path := filepath.Join(directory, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	fill := strings.NewReplacer("{directory}", l.directory, "{environment}", directory)
	for _, args := range s.install {
		args = append([]string{"install", "-q"}, args...)
		for i := range args {
			args[i] = fill.Replace(args[i])
		}
		if err := l.run(ctx, filepath.Join(directory, "bin", "pip"), args...); err != nil {
			return err
		}
	}
	return os.WriteFile(done, []byte(want), 0o644)
}

// models makes the models with random weights, once.
func (l *lab) models(ctx context.Context) (string, error) {
	directory := filepath.Join(l.work, "models")
	if _, err := os.Stat(filepath.Join(directory, "lora", "adapter_model.safetensors")); err == nil {
		return directory, nil
	}
	bin, err := l.environment(ctx, &server{name: "model", install: [][]string{{"numpy==2.4.1", "safetensors==0.6.2", "tokenizers==0.23.2", "gguf==0.19.0"}}})
	if err != nil {
		return "", err
	}
	texts, err := filepath.Glob(filepath.Join(l.root, "docs", "*.md"))
	if err != nil {
		return "", err
	}
	args := append([]string{filepath.Join(l.directory, "model.py"), directory}, texts...)
	return directory, l.run(ctx, filepath.Join(bin, "python"), args...)
}
