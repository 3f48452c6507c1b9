package simulator

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// numbersOf returns the fields of a struct that are numbers, those inside
// structs too.
func numbersOf(v reflect.Value, prefix string) map[string]float64 {
	n := make(map[string]float64)
	for i := range v.NumField() {
		name, f := prefix+v.Type().Field(i).Name, v.Field(i)
		switch {
		case f.CanInt():
			n[name] = float64(f.Int())
		case f.CanUint():
			n[name] = float64(f.Uint())
		case f.CanFloat():
			n[name] = f.Float()
		case f.Kind() == reflect.Struct:
			for k, x := range numbersOf(f, name+".") {
				n[k] = x
			}
		}
	}
	return n
}

// TestAddingUp adds the counters and the view of a busy replica to themselves:
// each number doubles, but for those that say what is meant and the longest.
func TestAddingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testReplica(func(o *Options) { o.BlockSize, o.Blocks, o.Slots, o.QueueLimit = 4, 12, 3, 1 })
		finished(start(t, r, promptOf(1, 9), 30))
		finished(start(t, r, promptOf(1, 9), 2))
		full := []*sequence{start(t, r, promptOf(2, 12), 40), start(t, r, promptOf(3, 12), 30)}
		time.Sleep(300 * ms)
		full = append(full, start(t, r, promptOf(4, 12), 20), start(t, r, promptOf(5, 12), 10))
		if r.submit(newSequence(promptOf(6, 9), 9, finishLength)) {
			t.Error("the queue is not full")
		}
		for r.state().Preemptions == 0 {
			time.Sleep(10 * ms)
		}
		s := r.view().all().stats
		before := numbersOf(reflect.ValueOf(*s), "")
		sum := s.clone()
		sum.add(s)
		after := numbersOf(reflect.ValueOf(sum), "")
		for name, n := range before {
			want := 2 * n
			if name == "longest" {
				want = n
			}
			if n == 0 || after[name] != want {
				t.Errorf("counter %s: %v became %v, want %v", name, n, after[name], want)
			}
		}
		shorter := newStats(nil)
		if shorter.add(s); shorter.longest != s.longest {
			t.Errorf("longest %d, want %d", shorter.longest, s.longest)
		}
		if got, want := sum.finished[finishLength], 2*s.finished[finishLength]; got != want || got == 0 {
			t.Errorf("finished %d, want %d", got, want)
		}

		one := view{
			o: r.o, slots: 11, running: 1, waiting: 2, prefilling: 3, paused: 4, reserved: 5, prefill: 6,
			blocks: 7, used: 8, evictable: 9, evicted: 10,
		}
		for c := range one.byClass {
			one.byClass[c] = newStats(nil)
		}
		before = numbersOf(reflect.ValueOf(one), "")
		other := one
		one.add(&other)
		for name, n := range numbersOf(reflect.ValueOf(one), "") {
			if n != 2*before[name] || n == 0 && name != "replica" && name != "class" {
				t.Errorf("%s: %v became %v", name, before[name], n)
			}
		}
		for _, q := range full {
			r.abort(q)
		}
	})
}

// TestViewOfBlocks looks at one sequence while it runs and after its end.
func TestViewOfBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testReplica(nil)
		f := func(want map[string]int) {
			t.Helper()
			v := r.view()
			got := map[string]int{
				"used": v.used, "evictable": v.evictable, "reserved": v.reserved, "prefilling": v.prefilling, "prefill": v.prefill,
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		}
		q := start(t, r, promptOf(1, 100), 20)
		f(map[string]int{"used": 7, "evictable": 0, "reserved": 120, "prefilling": 1, "prefill": 100})
		time.Sleep(130 * ms) // the first token came at 120 ms
		f(map[string]int{"used": 7, "evictable": 0, "reserved": 120, "prefilling": 0, "prefill": 0})
		finished(q)
		// 119 tokens were computed; seven blocks are full.
		f(map[string]int{"used": 0, "evictable": 7, "reserved": 0, "prefilling": 0, "prefill": 0})
		synctest.Wait()
	})
}

// TestBackgroundIsNotRejected though it finds the queue full again and again.
func TestBackgroundIsNotRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{Slots: 1, QueueLimit: 1, Background: 5}, false)
		defer v.stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := v.State()[0]; s.Rejected != 0 || s.Running != 1 || s.Waiting != 1 || s.Finished["length"] == 0 {
			t.Errorf("state %+v", s)
		}
	})
}

// TestRealtimeTokens asks SGLang twice for the same, of which 24 of 25 blocks
// are cached then.
func TestRealtimeTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testReplica(nil)
		for range 2 {
			finished(start(t, r, promptOf(1, 400), 11))
		}
		want := map[string]float64{"prefill_compute": 416, "prefill_cache": 384, "decode": 20}
		if d := cmp.Diff(want, sglangRealtime(r.view().all())); d != "" {
			t.Error(d)
		}
	})
}
