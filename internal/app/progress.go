package app

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// progress is a line on a terminal that shows how far a command is, and that it runs. A nil progress does nothing.
type progress struct {
	w     io.Writer
	what  string // is done
	total int    // how often it is done; 1 has no bar

	mu           sync.Mutex
	began        time.Time
	done, failed int
	stop         func() // drawing, and takes the line away
}

// newProgress returns the progress of what is done so many times, which must be ended; nil where w is no terminal.
func newProgress(w io.Writer, what string, total int) *progress {
	if !isTerminal(w) {
		return nil
	}
	p := &progress{w: w, what: what, total: total}
	p.start()
	return p
}

// start has the line drawn again each second.
func (p *progress) start() {
	p.began = time.Now()
	stopping := make(chan struct{})
	var stopped sync.WaitGroup
	stopped.Go(func() {
		for tick := time.Tick(time.Second); ; {
			select {
			case <-tick:
				p.mu.Lock()
				p.draw()
				p.mu.Unlock()
			case <-stopping:
				return
			}
		}
	})
	p.stop = sync.OnceFunc(func() {
		close(stopping)
		stopped.Wait()
		fmt.Fprint(p.w, "\r\x1b[K")
	})
}

func (p *progress) set(done, failed int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.failed = done, failed
	p.draw()
}

const progressWidth = 40

func (p *progress) draw() {
	line := p.what
	if p.total > 1 {
		full := progressWidth * p.done / p.total
		line = fmt.Sprintf("[%s%s] %d/%d", strings.Repeat("#", full), strings.Repeat("-", progressWidth-full), p.done, p.total)
	}
	if p.failed > 0 {
		line += fmt.Sprintf(", %d failed", p.failed)
	}
	fmt.Fprintf(p.w, "\r%s, %s\x1b[K", line, time.Since(p.began).Truncate(time.Second))
}

func (p *progress) end() {
	if p != nil {
		p.stop()
	}
}
