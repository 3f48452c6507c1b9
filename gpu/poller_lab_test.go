package gpu

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// testLog gathers what is logged.
type testLog struct {
	sync.Mutex
	bytes.Buffer
}

func (l *testLog) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.Write(p)
}

func testLogger(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

// lab is a poller that runs in a bubble.
type lab struct {
	*Poller
	library *fakeLibrary
	log     *testLog
	cancel  func()
	ended   chan error
}

func newLab(t *testing.T, library *fakeLibrary, o Options) *lab {
	t.Helper()
	l := &lab{library: library, log: &testLog{}, ended: make(chan error, 1)}
	o.Logger = slog.New(slog.NewTextHandler(l.log, nil))
	l.Poller = New(library, o)
	ctx, cancel := context.WithCancel(t.Context())
	l.cancel = cancel
	go func() { l.ended <- l.Run(ctx) }()
	return l
}

// end stops the poller, which is to close the library.
func (l *lab) end(t *testing.T) {
	t.Helper()
	l.cancel()
	if err := <-l.ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	synctest.Wait()
	noMisuse(t, l.library)
	if l.library.isOpen {
		t.Error("the library is open")
	}
}

// after sleeps and returns what there is to see then.
func (l *lab) after(d time.Duration) *Snapshot {
	time.Sleep(d)
	synctest.Wait()
	return l.Snapshot()
}

func want(t *testing.T, s *Snapshot, state State) {
	t.Helper()
	if s.State != state || (s.Err == nil) != (state == StateUp || state == StateStarting) {
		t.Fatalf("state %s (%v), want %s", s.State, s.Err, state)
	}
	for _, d := range s.Devices {
		if state != StateUp && (d.Up || d.Readings != nil || d.UUID == "" || d.Name == "") {
			t.Errorf("in state %s: %v", state, d)
		}
	}
}
