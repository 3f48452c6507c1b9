package stand

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/app"
)

// Exporter is the program itself, running in this process.
type Exporter struct {
	// Address is the host:port that it listens on.
	Address string

	cancel context.CancelFunc
	code   chan int
	log    *strings.Builder // not to be read before code
}

// StartExporter runs the program with the given arguments until Close. It
// returns when the program listens.
func StartExporter(ctx context.Context, args ...string) (*Exporter, error) {
	ctx, cancel := context.WithCancel(ctx)
	e := &Exporter{cancel: cancel, code: make(chan int, 1), log: &strings.Builder{}}
	address := make(chan string, 4)
	go func() {
		e.code <- app.Run(ctx, args, app.Options{
			Stdout: io.Discard, Stderr: e.log,
			OnListen: func(a net.Addr) { address <- a.String() },
		})
	}()
	select {
	case e.Address = <-address:
		return e, nil
	case code := <-e.code:
		cancel()
		return nil, fmt.Errorf("run the exporter %q: exit code %d: %s", args, code, e.log)
	case <-time.After(startPatience):
		return nil, errors.Join(fmt.Errorf("run the exporter %q: it does not listen", args), e.Close())
	}
}

// Close ends the program as a signal would.
func (e *Exporter) Close() error {
	e.cancel()
	select {
	case code := <-e.code:
		if code != 0 {
			return fmt.Errorf("the exporter ended with exit code %d: %s", code, e.log)
		}
		return nil
	case <-time.After(stopPatience):
		return errors.New("the exporter does not end")
	}
}
