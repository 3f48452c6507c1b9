package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
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

// process is a tool that runs. It and all that it starts are one session.
type process struct {
	cmd     *exec.Cmd
	log     bytes.Buffer
	started time.Time
	ended   chan struct{}
	err     error
	cost    cost
}

// start starts a tool in a directory.
func start(ctx context.Context, dir string, env, argv []string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, argv[0], argv[1:]...), ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, &p.log, &p.log
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p.cmd.Cancel = func() error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
	p.cmd.WaitDelay = 5 * time.Second
	p.started = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(argv[0]), err)
	}
	go p.watch()
	return p, nil
}

// watch reads the memory and the CPU time of the session until the tool ends.
// The kernel's own sum has only those processes that their parents waited for.
func (p *process) watch() {
	exited := make(chan struct{})
	go func() {
		p.err = p.cmd.Wait()
		close(exited)
	}()
	cpu := map[int]time.Duration{}
	for {
		var memory int64
		for pid, u := range session(p.cmd.Process.Pid) {
			memory += u.memory
			cpu[pid] = u.cpu
		}
		p.cost.Memory = max(p.cost.Memory, memory)
		select {
		case <-exited:
			p.cost.Wall = time.Since(p.started)
			var seen time.Duration
			for _, c := range cpu {
				seen += c
			}
			p.cost.CPU = max(seen, p.cmd.ProcessState.UserTime()+p.cmd.ProcessState.SystemTime())
			close(p.ended)
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// so returns the cost of a tool that still runs.
func (p *process) so() cost {
	c := cost{Wall: time.Since(p.started)}
	for _, u := range session(p.cmd.Process.Pid) {
		c.CPU += u.cpu
		c.Memory += u.memory
	}
	return c
}

// wait waits for the end of the tool. The error has the end of what it printed.
func (p *process) wait() (cost, error) {
	<-p.ended
	if p.err != nil {
		return p.cost, fmt.Errorf("%w: %s", p.err, tail(p.log.String()))
	}
	return p.cost, nil
}

// stop ends a daemon.
func (p *process) stop() cost {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.ended
	}
	return p.cost
}

// tail is the last lines of a log on one line.
func tail(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], " | ")
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
