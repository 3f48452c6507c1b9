package gpu

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
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

// A lost GPU stays in the list; the library is reopened now and then to see
// whether it came back, while the others are read on.
func TestLostGPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		device := h100("GPU-1")
		library := newFake(h100("GPU-0"), device, h100("GPU-2"))
		l := newLab(t, library, Options{})
		defer l.end(t)
		want(t, l.after(6*time.Second), StateUp)
		library.set(func() {
			device.fail = map[string]error{"*": failed(CodeLost)}
			library.xids = []XID{{UUID: "GPU-1", Number: 79, At: time.Unix(1, 0)}}
		})
		dark := 0       // polls without unit counters of a GPU that is well
		for range 100 { // polls
			s := l.after(5 * time.Second)
			want(t, s, StateUp)
			if !has(s.Devices[0], SMActive) {
				dark++
			}
			var up []bool
			for _, d := range s.Devices {
				up = append(up, d.Up)
				if d.Up != has(d, Power) || d.Name == "" {
					t.Fatalf("%+v", d)
				}
			}
			if diff := cmp.Diff([]bool{true, false, true}, up); diff != "" {
				t.Fatalf("up (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]XIDCount{{79, 1, time.Unix(1, 0)}}, s.Devices[1].XIDs); diff != "" {
				t.Fatalf("XIDs (-want +got):\n%s", diff)
			}
		}
		// Lost at 10 s, and now it is 506 s: at 70, 130, ..., 490 s.
		if n := library.called("Open"); n != 1+8 || dark != 8 {
			t.Errorf("opened %d times, %d polls without unit counters", n, dark)
		}
		library.set(func() { device.fail = nil })
		s := l.after(time.Minute)
		if d := s.Devices[1]; !d.Up || !has(d, Power) || len(d.XIDs) != 1 {
			t.Errorf("it does not come back: %+v", d)
		}
		opened := library.called("Open")
		l.after(10 * time.Minute)
		if n := library.called("Open"); n != opened {
			t.Errorf("opened %d times more with all GPUs there", n-opened)
		}
		text := l.log.String()
		if strings.Count(text, "is lost") != 1 || strings.Count(text, "is back") != 1 || strings.Count(text, "critical error") != 1 || strings.Count(text, "opening a GPU failed") != 1 || strings.Count(text, "\n") != 5 {
			t.Errorf("log:\n%s", text)
		}
	})
}

// It does not matter at which call a GPU is lost, or the library.
func TestLostAtAnyCall(t *testing.T) {
	calls := map[string]bool{}
	synctest.Test(t, func(t *testing.T) {
		for _, split := range []bool{false, true} {
			s := newLossySession(t, split)
			s.must(t)
			time.Sleep(5 * time.Second)
			s.must(t)
			for call := range s.library.calls {
				calls[call] = true
			}
		}
	})
	for _, call := range []string{"Open", "DriverVersion", "CUDAVersion", "DeviceCount", "NextXID"} {
		delete(calls, call) // no call to a device
	}
	if len(calls) < 35 {
		t.Errorf("only %d calls: %v", len(calls), calls)
	}
	for call := range calls {
		for _, code := range []Code{CodeLost, CodeUninitialized} {
			t.Run(call+" "+string(code), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					for _, split := range []bool{false, true} {
						s := newLossySession(t, split)
						s.must(t)
						time.Sleep(identityFor)
						lossAt(t, s, call, code)
					}
				})
			})
		}
	}
}

func newLossySession(t *testing.T, split bool) testSession {
	device := splitH100("MIG-a", "MIG-b")
	device.numbers["MIG mode"] = []float64{flag(split)}
	device.processes = []Process{{PID: 1}}
	s := newTestSession(t, newFake(device), Options{Processes: true})
	s.settings.proc = t.TempDir()
	return s
}

// lossAt lets one call fail, where it is made in a poll at all.
func lossAt(t *testing.T, s testSession, call string, code Code) {
	t.Helper()
	before := s.library.called(call)
	s.library.fail[call] = failed(code)
	o := s.cycle(slices.Contains([]string{"Device", "UUID", "Watch"}, call))
	if s.library.called(call) == before {
		return
	}
	if o.State != stateOf(failed(code)) || s.library.isOpen {
		t.Fatalf("state %s: %v", o.State, o.Err)
	}
	for _, d := range o.Devices {
		if d.Up || d.Readings != nil || d.Processes != nil {
			t.Errorf("%+v", d)
		}
	}
	clear(s.library.fail)
	s.must(t)
}

// A GPU that could not be opened from the start is tried again.
func TestGPUUnopened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		device := h100("GPU-1")
		device.fail = map[string]error{"Device": failed(CodeUnknown)}
		library := newFake(h100("GPU-0"), device, h100("GPU-2"))
		l := newLab(t, library, Options{})
		defer l.end(t)
		s := l.after(time.Minute)
		want(t, s, StateUp)
		if len(s.Devices) != 2 || s.Count != 3 {
			t.Errorf("%+v", s)
		}
		library.set(func() { device.fail = nil })
		if s = l.after(time.Minute + 5*time.Second); len(s.Devices) != 3 || s.Devices[1].UUID != "GPU-1" || !s.Devices[1].Up {
			t.Errorf("%+v", s)
		}
	})
}

// One that may not be opened is not, and said once.
func TestGPUDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		library := newFake(h100("GPU-0"), h100("GPU-1"), h100("GPU-2"))
		for _, denied := range library.devices[1:] {
			denied.fail = map[string]error{"Device": failed(CodeNoPermission)}
		}
		l := newLab(t, library, Options{})
		defer l.end(t)
		s := l.after(time.Hour)
		want(t, s, StateUp)
		if len(s.Devices) != 1 || s.Count != 3 || library.called("Open") != 1 {
			t.Errorf("%+v", s)
		}
		text := l.log.String()
		if strings.Count(text, "\n") != 3 || !strings.Contains(text, "gpu=1 err=\"fake: no_permission\"") || !strings.Contains(text, "gpu=2") {
			t.Errorf("log:\n%s", text)
		}
	})
}

// A GPU that is no more in the driver's count stays in the list; an index that
// another GPU has then does not matter.
func TestGPUVanishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := h100("GPU-a"), h100("GPU-b")
		library := newFake(a, b)
		l := newLab(t, library, Options{})
		defer l.end(t)
		l.after(0)
		library.set(func() { a.fail = map[string]error{"memory": failed(CodeLost)} })
		l.after(5 * time.Second)
		library.set(func() { library.devices = []*fakeDevice{b} })
		s := l.after(time.Minute)
		want(t, s, StateUp)
		if s.Count != 1 || len(s.Devices) != 2 || s.Devices[0].UUID != "GPU-a" || s.Devices[0].Up || !s.Devices[1].Up || s.Devices[1].Index != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A critical error is reported with the failure that it comes with, and before the
// library forgets it.
func TestXIDsOutliveTheLibrary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := h100("GPU-1")
		library := newFake(h100("GPU-0"), lost)
		l := newLab(t, library, Options{})
		defer l.end(t)
		l.after(0)
		library.set(func() { lost.fail = map[string]error{"*": failed(CodeLost)} })
		l.after(63 * time.Second) // lost at 5 s, so that the library is reopened at 65 s
		library.set(func() { library.xids = []XID{{UUID: "GPU-0", Number: 31, At: time.Unix(1, 0)}} })
		s := l.after(3 * time.Second)
		if n := library.called("Open"); n != 2 {
			t.Fatalf("opened %d times", n)
		}
		if diff := cmp.Diff([]XIDCount{{31, 1, time.Unix(1, 0)}}, s.Devices[0].XIDs); diff != "" {
			t.Errorf("reopened (-want +got):\n%s", diff)
		}
		library.set(func() {
			library.xids = []XID{{UUID: "GPU-0", Number: 119, At: time.Unix(2, 0)}}
			library.fail["memory"] = failed(CodeUninitialized)
		})
		s = l.after(5 * time.Second)
		want(t, s, StateFailed)
		if diff := cmp.Diff([]XIDCount{{31, 1, time.Unix(1, 0)}, {119, 1, time.Unix(2, 0)}}, s.Devices[0].XIDs); diff != "" {
			t.Errorf("library down (-want +got):\n%s", diff)
		}
	})
}

func TestXIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		library := newFake(h100("GPU-0"))
		l := newLab(t, library, Options{})
		defer l.end(t)
		l.after(0)
		library.set(func() {
			for i := range 100 {
				library.xids = append(library.xids, XID{UUID: "GPU-0", Number: 31, At: time.Unix(int64(i), 0)})
			}
			library.xids = append(library.xids, XID{UUID: "GPU-0", Number: 13, At: time.Unix(7, 0)}, XID{UUID: "GPU-other", Number: 79})
		})
		s := l.after(5 * time.Second) // 64 in a poll
		if diff := cmp.Diff([]XIDCount{{31, 64, time.Unix(63, 0)}}, s.Devices[0].XIDs); diff != "" {
			t.Errorf("first poll (-want +got):\n%s", diff)
		}
		s = l.after(5 * time.Second)
		if diff := cmp.Diff([]XIDCount{{13, 1, time.Unix(7, 0)}, {31, 100, time.Unix(99, 0)}}, s.Devices[0].XIDs); diff != "" {
			t.Errorf("second poll (-want +got):\n%s", diff)
		}
		library.set(func() {
			for i := range 500 {
				library.xids = append(library.xids, XID{UUID: "GPU-0", Number: uint64(1000 + i)})
			}
		})
		if n := len(l.after(time.Minute).Devices[0].XIDs); n != 64 {
			t.Errorf("%d different ones", n)
		}
		if strings.Contains(l.log.String(), "GPU-other") {
			t.Error("an error of a GPU that is not there was counted")
		}
	})
}

// GPUs that come and go under ever new names do not fill the memory.
func TestKnownGPUsAreBounded(t *testing.T) {
	s := newTestSession(t, newFake(), Options{})
	for i := range 1000 {
		uuid := "GPU-" + string(rune('A'+i))
		s.know(uuid, DeviceSnapshot{UUID: uuid, Up: i == 999})
	}
	if len(s.known) != 128 || !s.known["GPU-"+string(rune('A'+999))].Up {
		t.Errorf("%d are known", len(s.known))
	}
}
