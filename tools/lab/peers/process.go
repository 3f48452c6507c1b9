package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/tools/lab/process"
)

// cost is what a run of a tool took.
type cost struct {
	// CPU is the processor time of all its processes.
	CPU time.Duration `json:"cpu"`
	// Memory is the highest sum of the resident memory of its processes, in bytes.
	Memory int64 `json:"memory"`
	// Wall is the time from its start to its end.
	Wall time.Duration `json:"wall"`
}

// running is a tool that runs.
type running struct {
	*process.Process
	started time.Time
	ended   chan struct{}
	cost    cost
}

// start starts a tool in a directory.
func start(ctx context.Context, dir string, env, argv []string) (*running, error) {
	p := &running{ended: make(chan struct{}), started: time.Now()}
	var err error
	if p.Process, err = process.Start(ctx, process.Options{Dir: dir, Env: env}, argv[0], argv[1:]...); err != nil {
		return nil, err
	}
	go p.watch()
	return p, nil
}

// watch reads the memory and the CPU time of the session until the tool ends.
// The kernel's own sum has only those processes that their parents waited for.
func (p *running) watch() {
	cpu := map[int]time.Duration{}
	for {
		var memory int64
		for pid, u := range session(p.PID()) {
			memory += u.memory
			cpu[pid] = u.cpu
		}
		p.cost.Memory = max(p.cost.Memory, memory)
		select {
		case <-p.Exited():
			p.cost.Wall = time.Since(p.started)
			var seen time.Duration
			for _, c := range cpu {
				seen += c
			}
			p.cost.CPU = max(seen, p.CPU())
			close(p.ended)
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// so returns the cost of a tool that still runs.
func (p *running) so() cost {
	c := cost{Wall: time.Since(p.started)}
	for _, u := range session(p.PID()) {
		c.CPU += u.cpu
		c.Memory += u.memory
	}
	return c
}

// wait waits for the end of the tool. The error has the end of what it printed.
func (p *running) wait() (cost, error) {
	<-p.ended
	if err := p.Err(); err != nil {
		return p.cost, fmt.Errorf("%w: %s", err, p.Tail())
	}
	return p.cost, nil
}

// use is what one process uses.
type use struct {
	memory int64
	cpu    time.Duration
}

// ticks is the unit of processor times in /proc: USER_HZ is 100 on all platforms
// that Go supports.
const ticks = time.Second / 100

// session returns the processes of a session.
func session(id int) map[int]use {
	found := map[int]use{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) || len(text) == 0 {
			continue // it has ended
		}
		pid, u, of, ok := parseStat(string(text))
		if ok && of == id {
			found[pid] = u
		}
	}
	return found
}

// parseStat reads /proc/PID/stat: see proc_pid_stat(5).
func parseStat(text string) (pid int, u use, session int, ok bool) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return 0, use{}, 0, false
	}
	fields := strings.Fields(text[end+1:]) // the first is the third of the page
	if len(fields) < 22 {
		return 0, use{}, 0, false
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(fields[i-3], 10, 64)
		return n
	}
	pid, err := strconv.Atoi(strings.TrimSpace(text[:open]))
	u = use{memory: number(24) * int64(os.Getpagesize()), cpu: time.Duration(number(14)+number(15)) * ticks}
	return pid, u, int(number(6)), err == nil
}
