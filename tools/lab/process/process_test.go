package process

import (
	"context"
	"fmt"
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

// What was started ends with a program that is killed, as one is by the time-out of its tests.
func TestNothingOutlivesTheProgram(t *testing.T) {
	const here = "PROCESS_TEST_CHILD"
	if os.Getenv(here) != "" {
		child, err := Start(t.Context(), Options{Dir: t.TempDir()}, "sleep", "1000")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("child", child.PID())
		<-child.Exited()
		return
	}
	program, err := Start(t.Context(), Options{Dir: t.TempDir(), Env: []string{here + "=1"}}, os.Args[0], "-test.run=^"+t.Name()+"$")
	if err != nil {
		t.Fatal(err)
	}
	child, err := program.Find(t.Context(), regexp.MustCompile(`child (\d+)`))
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Kill(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(look) {
		// A process that ended may wait for the one that adopted it.
		stat, err := os.ReadFile("/proc/" + child + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the child outlives the program that started it")
		}
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
