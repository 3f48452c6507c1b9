package process

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestProcess(t *testing.T) {
	dir := t.TempDir()
	p, err := Start(t.Context(), Options{Dir: dir, Env: []string{"NAME=value"}}, "sh", "-c", "echo at $NAME; sleep 1000")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.Find(t.Context(), regexp.MustCompile(`at (\w+)`)); err != nil || got != "value" {
		t.Errorf("found %q, %v", got, err)
	}
	p.Stop()
	if !p.Ended() || p.Err() == nil {
		t.Error("a process that was stopped has not ended by a signal")
	}
}

// A path is one from the folder of the caller, wherever the program runs.
func TestPathFromHere(t *testing.T) {
	here := t.TempDir()
	t.Chdir(here)
	if err := os.WriteFile("program", []byte("#!/bin/sh\necho ran\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p, err := Start(t.Context(), Options{Dir: t.TempDir()}, "./program")
	if err == nil {
		<-p.Exited()
		err = p.Err()
	}
	if err != nil {
		t.Error(err)
	}
}

func TestProcessThatEnds(t *testing.T) {
	p, err := Start(t.Context(), Options{Dir: t.TempDir()}, "sh", "-c", "echo no >&2; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Await(t.Context(), func() bool { return false }); err == nil || !strings.HasSuffix(err.Error(), "sh ended: no") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	p, err = Start(ctx, Options{Dir: t.TempDir()}, "sleep", "1000")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	select {
	case <-p.Exited():
	case <-time.After(time.Minute):
		t.Error("the process outlives its context")
	}
}
