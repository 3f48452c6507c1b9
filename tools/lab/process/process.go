// Package process starts the programs that the lab watches, waits until they are ready,
// keeps what they print, and ends them.
package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// look is how often Await looks.
const look = 50 * time.Millisecond

// patience is how long Stop waits before it ends a process by force.
const patience = 20 * time.Second

// Options say how a program is started.
type Options struct {
	// Dir is the folder that it runs in.
	Dir string
	// Env is added to the environment of this program.
	Env []string
	// Log is the file that gets all that it prints. Empty is a new one in Dir.
	Log string
}

// Process is a program that was started. It and all that it starts are one group.
type Process struct {
	name   string
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
	err    error
}

// Start starts a program: a name to look up, or a path from the current folder, though it
// runs in another. It is killed when ctx ends or this program, also by the time-out of a test.
func Start(ctx context.Context, o Options, path string, args ...string) (*Process, error) {
	if strings.ContainsRune(path, filepath.Separator) {
		whole, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", path, err)
		}
		path = whole
	}
	p := &Process{name: filepath.Base(path), cmd: exec.CommandContext(ctx, path, args...), exited: make(chan struct{})}
	log, err := openLog(o, p.name)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.log = log.Name()
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = o.Dir, log, log
	p.cmd.Env = append(os.Environ(), o.Env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	p.cmd.Cancel = func() error { return p.Signal(syscall.SIGKILL) }
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // Pdeathsig counts from the thread that started the process
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	return p, nil
}

func openLog(o Options, name string) (*os.File, error) {
	if o.Log != "" {
		return os.Create(o.Log)
	}
	return os.CreateTemp(o.Dir, name+"-*.log")
}

// PID returns the id of the process, which is that of its group and session.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited returns a channel that is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// Err returns how the process ended. It waits for that.
func (p *Process) Err() error {
	<-p.exited
	return p.err
}

// CPU returns the processor time of the process and of its children that it waited for,
// once it has ended.
func (p *Process) CPU() time.Duration {
	<-p.exited
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// Output returns what the process has printed.
func (p *Process) Output() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Tail returns the last lines of the output, on one line.
func (p *Process) Tail() string { return Tail(p.Output()) }

// Tail returns the last lines of an output, on one line.
func Tail(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], " | ")
}

// Await waits until ready reports true. It is an error that the process or ctx ends before.
func (p *Process) Await(ctx context.Context, ready func() bool) error {
	for !ready() {
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended: %s", p.name, p.Tail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %s", p.name, ctx.Err(), p.Tail())
		case <-time.After(look):
		}
	}
	return nil
}

// Find waits until the output has a match, and returns its first group.
func (p *Process) Find(ctx context.Context, pattern *regexp.Regexp) (string, error) {
	var found string
	err := p.Await(ctx, func() bool {
		m := pattern.FindStringSubmatch(p.Output())
		if m != nil {
			found = m[1]
		}
		return m != nil
	})
	return found, err
}

// Stop asks the process and all that it started to end, and ends by force what does not.
func (p *Process) Stop() {
	_ = p.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(patience):
	}
	_ = p.Kill()
}

// Kill ends the process and all that it started by force, and waits for its end.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.exited
	return nil
}

// Signal sends a signal to the process and all that it started.
func (p *Process) Signal(s syscall.Signal) error {
	if err := syscall.Kill(-p.PID(), s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// FreeAddress returns an address of a host with a port that was free just now.
func FreeAddress(host string) (string, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}
