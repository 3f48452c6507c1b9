package simulator

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const ms = time.Millisecond

// testReplica has round numbers: 1 ms per prompt token, 20 ms per step, 1 ms
// per further sequence.
func testReplica(change func(*Options)) *replica {
	o := Options{PrefillTokensPerSecond: 1000, DecodeStep: 20 * ms, DecodeStepPerSequence: ms}
	if change != nil {
		change(&o)
	}
	o = o.withDefaults()
	return newReplica(&o, 0, nil, new(gate))
}

// promptOf returns n tokens; prompts of different kinds share nothing.
func promptOf(kind, n int) []token {
	tokens := make([]token, n)
	for i := range tokens {
		tokens[i] = token(kind<<20 | i)
	}
	return tokens
}

// start submits a sequence and lets the engine plan with it.
func start(t *testing.T, r *replica, p []token, output int) *sequence {
	t.Helper()
	q := newSequence(p, output, finishLength)
	if !r.submit(q) {
		t.Fatal("not submitted")
	}
	synctest.Wait()
	return q
}

// finished waits for the end of a sequence and returns when that was.
func finished(q *sequence) time.Time {
	for q.progress().finish == "" {
		<-q.ready
	}
	return time.Now()
}

func TestOneRequest(t *testing.T) {
	f := func(promptTokens, output int, first, last time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			q := start(t, testReplica(nil), promptOf(1, promptTokens), output)
			end := finished(q)
			p := q.progress()
			if got := p.first.Sub(begin); got != first {
				t.Errorf("prompt of %d: first token after %v, want %v", promptTokens, got, first)
			}
			if got := end.Sub(begin); got != last {
				t.Errorf("prompt of %d: last token after %v, want %v", promptTokens, got, last)
			}
			if p.tokens != output || p.finish != finishLength || p.cached != 0 {
				t.Errorf("progress %+v", p)
			}
		})
	}
	// prompt/rate + one step, however many chunks; then one step per token.
	f(1, 1, 21*ms, 21*ms)
	f(100, 5, 120*ms, 200*ms)
	f(512, 2, 532*ms, 552*ms)
	f(513, 2, 533*ms, 553*ms)
	f(5000, 11, 5020*ms, 5220*ms)
}

func TestFullSlotsMakeTheNextWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testReplica(func(o *Options) { o.Slots = 2 })
		begin := time.Now()
		a := start(t, r, promptOf(1, 10), 5)
		b := start(t, r, promptOf(2, 10), 5)
		c := start(t, r, promptOf(3, 10), 5)
		// Step by step: 0 A in; 30 A1, B in (10+20+1); 61 A2 B1; then 21 each:
		// 82, 103, 124 A5; C in (10+20+1); 155 B5 C1; 4 more of 20.
		finished(a)
		finished(b)
		finished(c)
		type times struct{ queue, first, last time.Duration }
		of := func(q *sequence) times {
			p := q.progress()
			return times{p.scheduled.Sub(begin), p.first.Sub(begin), q.last.Sub(begin)}
		}
		got := []times{of(a), of(b), of(c)}
		want := []times{{0, 30 * ms, 124 * ms}, {30 * ms, 61 * ms, 155 * ms}, {124 * ms, 155 * ms, 235 * ms}}
		if d := cmp.Diff(want, got, cmp.AllowUnexported(times{})); d != "" {
			t.Error(d)
		}
	})
}

func TestBatchSlowsDecoding(t *testing.T) {
	f := func(sequences int, gap time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			r := testReplica(func(o *Options) { o.Slots = 64 })
			var all []*sequence
			for i := range sequences {
				all = append(all, start(t, r, promptOf(i, 4), 300))
			}
			time.Sleep(5 * time.Second) // all are in the batch
			<-all[0].ready              // what came before
			var at [2]time.Time
			for i := range at {
				<-all[0].ready
				at[i] = time.Now()
			}
			if got := at[1].Sub(at[0]); got != gap {
				t.Errorf("%d sequences: %v per token, want %v", sequences, got, gap)
			}
			for _, q := range all {
				finished(q)
			}
		})
	}
	f(1, 20*ms)
	f(2, 21*ms)
	f(33, 52*ms)
}

func TestPrefillSharesStepsWithDecoding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testReplica(nil)
		begin := time.Now()
		a := start(t, r, promptOf(1, 10), 4)
		b := start(t, r, promptOf(2, 1000), 1)
		finished(a)
		finished(b)
		// 30 A1; B's 512 beside A2: 30+512+20 = 562; B's 488 beside A3 and with
		// B1: 562+488+21 = 1071; A4 at 1091.
		if got := b.last.Sub(begin); got != 1071*ms {
			t.Errorf("B's token after %v, want 1071ms", got)
		}
		if got := a.last.Sub(begin); got != 1091*ms {
			t.Errorf("A's last token after %v, want 1091ms", got)
		}
	})
}

func TestPrefixCache(t *testing.T) {
	f := func(first, second []token, cached int) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			r := testReplica(nil)
			finished(start(t, r, first, 1))
			begin := time.Now()
			q := start(t, r, second, 1)
			end := finished(q)
			if got := q.progress().cached; got != cached {
				t.Errorf("%d of %d tokens cached, want %d", got, len(second), cached)
			}
			if got, want := end.Sub(begin), time.Duration(len(second)-cached)*ms+20*ms; got != want {
				t.Errorf("first token after %v, want %v", got, want)
			}
			s := r.state()
			if s.PrefixQueries != len(first)+len(second) || s.PrefixHits != cached {
				t.Errorf("state %+v", s)
			}
		})
	}
	p := promptOf(1, 100)
	f(p, promptOf(1, 100), 96)                                    // full blocks of 16
	f(promptOf(1, 96), promptOf(1, 96), 80)                       // the last token is always computed
	f(promptOf(1, 97), promptOf(1, 97), 96)                       //
	f(promptOf(1, 10), promptOf(1, 10), 0)                        // less than a block
	f(p, promptOf(2, 100), 0)                                     // another text
	f(p, append(promptOf(1, 50), promptOf(2, 50)...), 48)         // a common beginning
	f(p, append(promptOf(2, 1), promptOf(1, 99)...), 0)           // a nonce in front
	f(p, append(promptOf(1, 100), promptOf(2, 1000)...), 96)      // a longer one
	f(promptOf(1, 2000), append(promptOf(1, 100)[:64:64], 7), 64) // a shorter one
}

func TestGeneratedTokensAreCachedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testReplica(nil)
		q := start(t, r, promptOf(1, 10), 40)
		finished(q)
		next := start(t, r, append(q.tokens, 1, 2, 3), 1)
		finished(next)
		// 49 of 50 tokens were computed: three full blocks.
		if got := next.progress().cached; got != 48 {
			t.Errorf("%d tokens cached, want 48", got)
		}
	})
}

func TestPreemption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testReplica(func(o *Options) {
			o.BlockSize, o.Blocks, o.DecodeStepPerSequence = 4, 4, -1
		})
		begin := time.Now()
		a := start(t, r, promptOf(1, 6), 6)
		b := start(t, r, promptOf(2, 6), 6)
		finished(a)
		finished(b)
		// 26 A1, B in; 52 A2 B1; 72 A3 B2; A needs a third block: B out; 92 A4,
		// 112 A5, 132 A6; B again, 4 of its 8 tokens still cached: 132+4+20;
		// then three more steps.
		if got := a.last.Sub(begin); got != 132*ms {
			t.Errorf("A ended after %v, want 132ms", got)
		}
		if got := b.last.Sub(begin); got != 216*ms {
			t.Errorf("B ended after %v, want 216ms", got)
		}
		// None of the blocks of the prompts is found at first. B's last block is A's second, whose content goes: all others were empty.
		want := State{
			Blocks: 4, PrefixQueries: 12, EvictedBlocks: 1, PromptTokens: 12, GeneratedTokens: 12, Preemptions: 1, FirstTokens: 2,
			Finished: map[string]int{"length": 2, "stop": 0, "abort": 0},
			// Two prompts, and of B's eight tokens those outside of its first block.
			EvictableBlocks: 3, PrefillCached: 4, PrefillComputed: 6 + 6 + 4,
		}
		if d := cmp.Diff(want, r.state()); d != "" {
			t.Error(d)
		}
	})
}

func TestAbort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testReplica(func(o *Options) { o.Slots, o.DecodeStep = 1, time.Hour })
		a := start(t, r, promptOf(1, 100), 10)
		b := start(t, r, promptOf(2, 100), 10)
		r.abort(b)
		r.abort(a)
		r.abort(a)
		synctest.Wait() // without any time passing, the loop must be gone
		if r.looping {
			t.Error("the loop still runs")
		}
		s := r.state()
		if s.Running+s.Waiting+s.BlocksInUse != 0 || s.Finished["abort"] != 2 {
			t.Errorf("state %+v", s)
		}
		if a.progress().finish != finishAbort || b.progress().finish != finishAbort {
			t.Error("not marked as aborted")
		}
	})
}

func TestQueueLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testReplica(func(o *Options) { o.Slots, o.QueueLimit = 2, 3 })
		var all []*sequence
		for range 5 {
			all = append(all, start(t, r, promptOf(1, 10), 2))
		}
		if r.submit(newSequence(promptOf(1, 10), 2, finishLength)) {
			t.Error("a sixth was taken by 2 slots and 3 places")
		}
		for _, q := range all {
			finished(q)
		}
	})
}

// Whatever comes: each sequence gets its tokens, and no block is lost.
func TestRandomLoadLeavesNothingBehind(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			r := testReplica(func(o *Options) {
				o.BlockSize, o.Blocks, o.Slots = 1+rng.IntN(8), 40+rng.IntN(100), 1+rng.IntN(20)
			})
			var all []*sequence
			for range 100 {
				most := r.o.ContextLength / 2
				q := start(t, r, promptOf(rng.IntN(5), 1+rng.IntN(most)), 1+rng.IntN(most))
				all = append(all, q)
				if rng.IntN(10) == 0 {
					r.abort(all[rng.IntN(len(all))])
				}
				time.Sleep(time.Duration(rng.IntN(100)) * ms)
			}
			for _, q := range all {
				finished(q)
				p := q.progress()
				if p.finish == finishLength && p.tokens != q.output {
					t.Errorf("%d tokens, want %d", p.tokens, q.output)
				}
			}
			synctest.Wait()
			s := r.state()
			if s.Running+s.Waiting+s.BlocksInUse != 0 || r.looping {
				t.Errorf("state %+v", s)
			}
			if len(all) != s.Finished["length"]+s.Finished["abort"] {
				t.Errorf("finished %v of %d", s.Finished, len(all))
			}
		})
	}
}

func TestReplicasArePhaseShifted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Options{Replicas: 4, DecodeStep: 20 * ms, PrefillTokensPerSecond: 1000}.withDefaults()
		begin := time.Now()
		for i := range 4 {
			q := start(t, newReplica(&o, i, nil, new(gate)), promptOf(1, 10), 1)
			finished(q)
			if got, want := q.last.Sub(begin), time.Duration(i)*5*ms+30*ms; got != want {
				t.Errorf("replica %d: first token after %v, want %v", i, got, want)
			}
			begin = time.Now()
		}
	})
}

// TestStateOfBlocks looks at one sequence while it runs and after its end.
func TestStateOfBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testReplica(nil)
		f := func(used, evictable int) {
			t.Helper()
			if s := r.state(); s.BlocksInUse != used || s.EvictableBlocks != evictable {
				t.Errorf("%d blocks in use and %d evictable, want %d and %d", s.BlocksInUse, s.EvictableBlocks, used, evictable)
			}
		}
		q := start(t, r, promptOf(1, 100), 20)
		f(7, 0)
		time.Sleep(130 * ms) // the first token came at 120 ms
		f(7, 0)
		finished(q)
		// 119 tokens were computed; seven blocks are full.
		f(0, 7)
		synctest.Wait()
	})
}
