package gpu

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		library := newFake(h100("GPU-0"), rtx4090("GPU-1"))
		p := New(library, Options{})
		want(t, p.Snapshot(), StateStarting)
		l := newLab(t, library, Options{})
		defer l.end(t)
		begin := time.Now()
		s := l.after(0)
		want(t, s, StateUp)
		if s.Driver != "550.54.15" || s.CUDA != "12.4" || s.Count != 2 || len(s.Devices) != 2 || !s.At.Equal(begin) || s.Simulated || len(s.Failures) != 0 {
			t.Errorf("%+v", s)
		}
		if d := s.Devices[1]; d.UUID != "GPU-1" || d.Index != 1 || !d.Up || !has(d, Power) {
			t.Errorf("%+v", d)
		}
		s = l.after(17 * time.Second)
		if got := s.At.Sub(begin); got != 15*time.Second || l.library.called("power") != 2*4 {
			t.Errorf("the last poll began after %v, %d readings", got, l.library.called("power"))
		}
		if n := l.library.called("Open"); n != 1 {
			t.Errorf("opened %d times", n)
		}
		if n := strings.Count(l.log.String(), "\n"); n != 1 {
			t.Errorf("%d lines:\n%s", n, l.log)
		}
	})
}

// The ways in which there may be nothing to read, and when it is tried again.
func TestStates(t *testing.T) {
	backOff := []time.Duration{0, 1, 3, 7, 15, 31, 63, 123, 183, 243}
	rarely := []time.Duration{0, 600, 1200}
	for _, test := range []struct {
		call  string
		code  Code
		state State
		tries []time.Duration // seconds
	}{
		{"Open", CodeNotBuilt, StateNotBuilt, rarely},
		{"Open", CodeLibraryNotFound, StateNoLibrary, rarely},
		{"Open", CodeDriverNotLoaded, StateNoDriver, backOff},
		{"Open", CodeVersionMismatch, StateDriverChanged, backOff},
		{"Open", CodeUnknown, StateFailed, backOff},
		{"Open", CodeFunctionNotFound, StateFailed, backOff},
		{"DeviceCount", CodeUninitialized, StateFailed, backOff},
		{"DeviceCount", "none", StateNoDevices, backOff},
		{"Device", CodeNoPermission, StateDenied, backOff},
		{"Device", CodeLost, StateLost, backOff},
		{"Device", CodeResetRequired, StateLost, backOff},
		{"Open", CodeOperatingSystem, StateDenied, backOff},
		{"Device", CodeOperatingSystem, StateDenied, backOff},
		{"Device", CodeDriverNotLoaded, StateNoDriver, backOff},
		{"UUID", CodeUnknown, StateFailed, backOff},
	} {
		t.Run(test.call+" "+string(test.code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				device := h100("GPU-0")
				library := newFake(device)
				if test.code == "none" {
					library.devices = nil
				} else {
					library.fail[test.call] = failed(test.code)
				}
				l := newLab(t, library, Options{})
				defer l.end(t)
				l.tries(t, test.state, test.tries)
				level := "level=WARN"
				if test.state == StateNotBuilt || test.state == StateNoLibrary {
					level = "level=INFO"
				}
				if text := l.log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, level) {
					t.Errorf("want one line of %s:\n%s", level, text)
				}
				library.set(func() { library.devices, library.fail = []*fakeDevice{device}, map[string]error{} })
				want(t, l.after(10*time.Minute), StateUp)
			})
		})
	}
}

// Where there should be GPUs, to find no library is a failure.
func TestRequired(t *testing.T) {
	for _, test := range []struct {
		code  Code
		state State
		tries []time.Duration // seconds
	}{
		{CodeLibraryNotFound, StateNoLibrary, []time.Duration{0, 1, 3, 7, 15, 31, 63, 123, 183}},
		{CodeNotBuilt, StateNotBuilt, []time.Duration{0, 600, 1200}}, // nothing will change that
	} {
		t.Run(string(test.code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				library := newFake(h100("GPU-0"))
				library.fail["Open"] = failed(test.code)
				l := newLab(t, library, Options{Required: true})
				defer l.end(t)
				if !l.Snapshot().Required {
					t.Error("the first snapshot does not say so")
				}
				l.tries(t, test.state, test.tries)
				if !l.Snapshot().Required {
					t.Error("the snapshot does not say so")
				}
				if text := l.log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "level=WARN") {
					t.Errorf("want one warning:\n%s", text)
				}
			})
		})
	}
}

// tries expects that the library is opened at these seconds, to no avail.
func (l *lab) tries(t *testing.T, state State, seconds []time.Duration) {
	t.Helper()
	begin := time.Now()
	for i, at := range seconds {
		if i > 0 {
			l.after(time.Until(begin.Add(at*time.Second - time.Millisecond)))
			if n := l.library.called("Open"); n != i {
				t.Fatalf("opened %d times just before %d s, want %d", n, at, i)
			}
		}
		s := l.after(time.Until(begin.Add(at * time.Second)))
		want(t, s, state)
		if n := l.library.called("Open"); n != i+1 {
			t.Fatalf("opened %d times after %d s, want %d", n, at, i+1)
		}
		if diff := cmp.Diff(map[State]uint64{state: uint64(i + 1)}, s.Failures); diff != "" {
			t.Fatalf("failures (-want +got):\n%s", diff)
		}
	}
}

// What fails for all GPUs in mid-run ends the use of the library at once.
func TestFailsInMidRun(t *testing.T) {
	for code, state := range map[Code]State{
		CodeUninitialized:   StateFailed,
		CodeVersionMismatch: StateDriverChanged,
		CodeDriverNotLoaded: StateNoDriver,
		CodeLost:            StateLost,
	} {
		t.Run(string(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				library := newFake(h100("GPU-0"), h100("GPU-1"))
				l := newLab(t, library, Options{})
				defer l.end(t)
				up := l.after(0)
				want(t, up, StateUp)
				library.set(func() { library.fail["memory"] = failed(code) })
				s := l.after(5 * time.Second)
				want(t, s, state)
				if library.isOpen || len(s.Devices) != 2 || s.At != up.At || s.Driver != up.Driver || s.Count != 2 {
					t.Errorf("%+v", s)
				}
				library.set(func() { clear(library.fail) })
				s = l.after(time.Second)
				want(t, s, StateUp)
				if !s.Devices[0].Up || s.Failures[state] != 1 {
					t.Errorf("%+v", s)
				}
				// The back-off starts again.
				library.set(func() { library.fail["memory"] = failed(code) })
				want(t, l.after(5*time.Second), state)
				library.set(func() { clear(library.fail) })
				want(t, l.after(time.Second), StateUp)
			})
		})
	}
}

// A driver that does not return is one state, one line and one goroutine, for
// as long as it takes; what comes late is not shown.
func TestStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		library := newFake(h100("GPU-0"))
		l := newLab(t, library, Options{})
		defer l.end(t)
		want(t, l.after(6*time.Second), StateUp)
		release := make(chan struct{})
		library.set(func() { library.hang["power"] = release })
		s := l.after(5 * time.Second) // the poll began at 10 s
		want(t, s, StateUp)
		want(t, l.after(9*time.Second-time.Millisecond), StateUp) // 10 s are over at 20 s
		s = l.after(time.Millisecond)
		want(t, s, StateStuck)
		if len(s.Devices) != 1 || s.Failures[StateStuck] != 1 || s.Err.Error() != "read GPUs: timeout: in power of GPU-0" {
			t.Errorf("%+v", s)
		}
		calls := library.called("power")
		s = l.after(time.Hour)
		want(t, s, StateStuck)
		if n := library.called("power"); n != calls || s.Failures[StateStuck] != 1 {
			t.Errorf("%d calls more while one is out, %d failures", n-calls, s.Failures[StateStuck])
		}
		library.set(func() { clear(library.hang) })
		close(release)
		want(t, l.after(999*time.Millisecond), StateStuck)
		if n := library.called("Open"); n != 1 {
			t.Errorf("opened %d times", n)
		}
		want(t, l.after(time.Millisecond), StateUp)
		if library.called("Open") != 2 || library.called("Close") != 1 {
			t.Errorf("opened %d times, closed %d times", library.called("Open"), library.called("Close"))
		}
		if n := strings.Count(l.log.String(), "\n"); n != 3 {
			t.Errorf("want a line for up, stuck, up:\n%s", l.log)
		}
	})
}

// Run ends within a second whatever the driver does, and does not close a
// library that hangs.
func TestStopWhileStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		library := newFake(h100("GPU-0"))
		release := make(chan struct{})
		library.hang["memory"] = release
		l := newLab(t, library, Options{})
		l.after(time.Minute)
		begin := time.Now()
		l.cancel()
		if err := <-l.ended; err != nil || time.Since(begin) > time.Second {
			t.Errorf("Run: %v after %v", err, time.Since(begin))
		}
		close(release)
		synctest.Wait()
		if n := library.called("Close"); n != 0 {
			t.Errorf("closed %d times", n)
		}
	})
}

// A slow first opening of many GPUs is no hang.
func TestSlowOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var devices []*fakeDevice
		for i := range 8 {
			devices = append(devices, h100("GPU-"+string(rune('0'+i))))
		}
		library := newFake(devices...)
		library.slow["Device"] = 9 * time.Second
		l := newLab(t, library, Options{})
		defer l.end(t)
		for range 71 {
			want(t, l.after(time.Second), StateStarting)
		}
		want(t, l.after(time.Second), StateUp)
		want(t, l.after(time.Minute), StateUp)
	})
}

// Readings that are too old are dropped while the driver is at work still: it opens its GPUs again because one is lost.
func TestStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := h100("GPU-1")
		library := newFake(a100("GPU-0"), lost, h100("GPU-2"), h100("GPU-3"))
		l := newLab(t, library, Options{})
		defer l.end(t)
		library.set(func() { library.xids = []XID{{UUID: "GPU-0", Number: 31, At: time.Unix(1, 0)}} })
		l.after(6 * time.Second)
		library.set(func() { lost.fail = map[string]error{"*": failed(CodeLost)}; library.slow["Device"] = 9 * time.Second })
		fresh := l.after(84 * time.Second) // lost at 10 s, opened again from 70 s to 106 s; the poll of 65 s is the last one
		if d := fresh.Devices[0]; time.Since(fresh.At) != staleAfter || !has(d, Power) || d.MIG[0].Readings == nil {
			t.Errorf("dropped after %v: %+v", time.Since(fresh.At), d)
		}
		old := l.after(time.Millisecond)
		want(t, old, StateUp)
		d := old.Devices[0]
		if d.Readings != nil || !d.Up || d.Name == "" || len(d.XIDs) != 1 || len(d.MIG) != 3 || d.MIG[0].UUID == "" || d.MIG[0].Readings != nil || old.At != fresh.At {
			t.Errorf("after more: %+v", d)
		}
		if !has(fresh.Devices[0], Power) || fresh.Devices[0].MIG[0].Readings == nil {
			t.Error("a snapshot changed after it was handed out")
		}
		if d := l.after(17 * time.Second).Devices[0]; !has(d, Power) {
			t.Errorf("after the GPUs are open: %+v", d)
		}
	})
}

// A driver that is slow, but not so slow that it counts as stuck, has readings
// at all times.
func TestSlowPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		library := newFake(h100("GPU-0"))
		library.slow["power"] = 9900 * time.Millisecond
		l := newLab(t, library, Options{})
		defer l.end(t)
		l.after(10 * time.Second)
		for range 600 {
			s := l.after(100 * time.Millisecond)
			want(t, s, StateUp)
			if !has(s.Devices[0], Power) {
				t.Errorf("no readings, %v after the last poll began", time.Since(s.At))
				break
			}
		}
		library.set(func() { clear(library.slow) })
		l.after(10 * time.Second)
	})
}

// panicking is a library with an error in it.
type panicking struct{ *fakeLibrary }

func (panicking) CUDAVersion() (string, error) { panic("out of range") }

func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		library := newFake(h100("GPU-0"))
		ctx, cancel := context.WithCancel(t.Context())
		p := New(panicking{library}, Options{})
		ended := make(chan error)
		go func() { ended <- p.Run(ctx) }()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		want(t, p.Snapshot(), StateFailed)
		if n := library.called("Open"); n != 4 || library.isOpen {
			t.Errorf("opened %d times", n)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestNoGoroutineIsLeft(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(newFake(h100("GPU-0")), Options{}).Run(ctx); err != nil {
		t.Error(err)
	}
}

// BenchmarkPoll is the cost of reading eight H100s, the driver's own aside.
func BenchmarkPoll(b *testing.B) {
	var devices []*fakeDevice
	for i := range 8 {
		devices = append(devices, h100(fmt.Sprint("GPU-", i)))
	}
	s := newSession(newFake(devices...), newPoller(SourceNVML, Options{}))
	b.ReportAllocs()
	for b.Loop() {
		if o := s.cycle(false); o.State != StateUp {
			b.Fatal(o.Err)
		}
	}
	s.close()
}

// BenchmarkSnapshot is the cost of a look, at fresh readings and at old ones.
func BenchmarkSnapshot(b *testing.B) {
	for name, age := range map[string]time.Duration{"fresh": 0, "stale": time.Hour} {
		b.Run(name, func(b *testing.B) {
			p := New(newFake(), Options{})
			devices := make([]DeviceSnapshot, 8)
			p.current.Store(&Snapshot{State: StateUp, At: time.Now().Add(-age), Devices: devices})
			b.ReportAllocs()
			for b.Loop() {
				if len(p.Snapshot().Devices) != 8 {
					b.Fatal("devices are missing")
				}
			}
		})
	}
}
