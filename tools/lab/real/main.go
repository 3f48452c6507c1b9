// Command real checks the exporter against real servers, which it installs
// from their packages and runs on loopback. What it finds out is written to
// evidence/, of which docs/compatibility.md is generated.
//
//	real [-servers vllm,litellm] [-only 'knee|fallback'] [-dry]
//	real -serve vllm
//	real -document
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	names := flag.String("servers", "", "names of the servers to check, with commas between them; all if empty")
	only := flag.String("only", "", "expression for the names of the checks to run, on top of the evidence that there is")
	dry := flag.Bool("dry", false, "write no evidence and no document")
	serveOnly := flag.String("serve", "", "start this server alone, print its URL, and check nothing")
	documentOnly := flag.Bool("document", false, "write docs/compatibility.md from the evidence and run nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	check := func() error { return run(ctx, *names, *only, *dry, *documentOnly) }
	if *serveOnly != "" {
		check = func() error { return serve(ctx, *serveOnly) }
	}
	if err := check(); err != nil {
		fmt.Fprintf(os.Stderr, "real: %v\n", err)
		os.Exit(1)
	}
}

// serve runs a server until ctx ends, for other programs of the lab, and prints its URL. Its model is named first.
func serve(ctx context.Context, name string) error {
	l, err := newLab()
	if err != nil {
		return err
	}
	b := &bench{lab: l, server: find(name)}
	defer b.stop()
	if err := b.start(ctx, "first"); err != nil {
		return err
	}
	fmt.Printf("http://127.0.0.1:%s\n", b.front.port)
	select {
	case <-ctx.Done():
		return nil
	case <-b.front.Exited():
		return fmt.Errorf("%s ended: %w: %s", name, b.front.Err(), b.front.Tail())
	}
}

func run(ctx context.Context, names, only string, dry, documentOnly bool) error {
	if documentOnly {
		return writeDocument(".")
	}
	wanted, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	l, err := newLab()
	if err == nil {
		err = l.build(ctx)
	}
	if err != nil {
		return err
	}
	failed := 0
	for _, s := range servers() {
		if !s.backendOnly && (names == "" || slices.Contains(strings.Split(names, ","), s.name)) && ctx.Err() == nil {
			e := l.check(ctx, s, wanted)
			failed += e.failures()
			if ctx.Err() != nil || dry {
				continue
			}
			before, err := readEvidence(l.directory, s.name)
			if err != nil {
				return err
			}
			if only != "" {
				e.keep(before, s)
			}
			if err := e.write(l.directory); err != nil {
				return err
			}
		}
	}
	if !dry {
		if err := writeDocument(l.directory); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d checks failed", failed)
	}
	return nil
}

// check runs the scenarios of a server whose names match.
func (l *lab) check(ctx context.Context, s *server, wanted *regexp.Regexp) *evidence {
	e := &evidence{Server: s.name, Version: s.version, Date: time.Now().UTC().Format(time.DateOnly)}
	b := &bench{lab: l, server: s}
	defer b.stop()
	err := b.start(ctx, "first")
	if err == nil {
		err = b.writeConfig()
	}
	if err != nil {
		e.add("all", "", cannot("%v", err))
		return e
	}
	for _, c := range scenarios(s) {
		if wanted.MatchString(c.name) {
			detail, err := c.run(ctx, b)
			e.add(c.name, detail, err)
		}
	}
	return e
}

func (e *evidence) failures() int {
	n := 0
	for _, c := range e.Checks {
		if c.Result == fails {
			n++
		}
	}
	return n
}

func writeDocument(directory string) error {
	text, err := document(directory)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(directory, "..", "..", "..", "docs", "compatibility.md"), []byte(text), 0o644)
}
