package gpu

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// tensor returns the share of the tensor cores, which with the fake is the
// time between the two samples: 1 % a second.
func tensor(list []Reading) (float64, bool) {
	for _, r := range list {
		if r.Kind == TensorActive {
			return r.Value, true
		}
	}
	return 0, false
}

func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		library := newFake(h100("GPU-0"))
		s := newTestSession(t, library, Options{})
		for _, step := range []struct {
			after time.Duration
			want  float64 // 0 is none
		}{
			{0, 0},                                // nothing to compare with
			{500 * time.Millisecond, 0},           // too early still
			{1500 * time.Millisecond, 0.02},       // since the first
			{900 * time.Millisecond, 0.02},        // too early: as before
			{100 * time.Millisecond, 0.01},        // since the third
			{10*time.Minute + time.Nanosecond, 0}, // a mean of too long
			{5 * time.Second, 0.05},               // since then
			{10 * time.Minute, 6},                 // just not too long
			{time.Second - time.Nanosecond, 6},    // just too early
			{time.Nanosecond, 0.01},               // just not
			{1250 * time.Millisecond, 0.0125},
		} {
			time.Sleep(step.after)
			got, ok := tensor(s.must(t).Devices[0].Readings)
			if ok != (step.want != 0) || math.Abs(got-step.want) > 1e-9 {
				t.Errorf("after %v: %v (%v), want %v", step.after, got, ok, step.want)
			}
			if library.samples > 1 {
				t.Errorf("after %v: %d samples are kept", step.after, library.samples)
			}
		}
	})
}

// A device that has no right to count is asked once; a failure in between
// leaves nothing behind.
func TestMeterFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		device := h100("GPU-0")
		library := newFake(device)
		s := newTestSession(t, library, Options{})
		s.must(t)
		for _, call := range []string{"GPMSample", "GPMMetrics"} {
			library.set(func() { library.fail[call] = failed(CodeUnknown) })
			time.Sleep(5 * time.Second)
			if _, ok := tensor(s.must(t).Devices[0].Readings); ok {
				t.Errorf("%s fails and there is a share", call)
			}
			library.set(func() { clear(library.fail) })
		}
		time.Sleep(5 * time.Second)
		if got, ok := tensor(s.must(t).Devices[0].Readings); !ok || got != 0.05 {
			t.Errorf("afterwards: %v, %v", got, ok)
		}
		library.set(func() { library.fail["GPMSample"] = failed(CodeNoPermission) })
		before := library.called("GPMSample")
		for range 3 {
			time.Sleep(5 * time.Second)
			s.must(t)
		}
		if n := library.called("GPMSample") - before; n != 1 {
			t.Errorf("asked %d times without permission", n)
		}
	})
}
