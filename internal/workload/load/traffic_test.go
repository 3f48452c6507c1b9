package load

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// users are a server that counts requests by their lengths as vLLM does.
type users struct {
	counts [2]Cumulative
	now    time.Time
	*Traffic
}

func newUsers() *users {
	u := &users{now: time.Unix(1.7e9, 0)}
	u.Traffic = NewTraffic(func() time.Time { return u.now })
	for i := range u.counts {
		for _, power := range []float64{1, 10, 100, 1000, 10_000, 100_000} {
			u.counts[i].Bounds = append(u.counts[i].Bounds, power, 2*power, 5*power)
		}
		u.counts[i].Counts = make([]uint64, len(u.counts[i].Bounds))
	}
	return u
}

// count counts one request.
func (u *users) count(input, output int) {
	for i, n := range [2]int{input, output} {
		for j, bound := range u.counts[i].Bounds {
			if float64(n) <= bound {
				u.counts[i].Counts[j]++
			}
		}
		u.counts[i].Count++
	}
}

// read reads the page after a time.
func (u *users) read(after time.Duration) {
	u.now = u.now.Add(after)
	var next [2]Cumulative
	for i, c := range u.counts {
		next[i] = Cumulative{c.Bounds, slices.Clone(c.Counts), c.Count}
	}
	u.Read("a", next[0], next[1])
}

// wait reads the page every five minutes.
func (u *users) wait(d time.Duration) {
	for ; d > 0; d -= 5 * time.Minute {
		u.read(5 * time.Minute)
	}
}

// counted is a probe with the counts of the server.
func counted(input, output int) *result.Result {
	return &result.Result{Outcome: result.Success, Tokens: result.Tokens{Prompt: input, Output: output, Source: result.TokensFromUsage}}
}

func TestWasserstein(t *testing.T) {
	even := func(lengths ...int) (all []workload.Length) {
		for _, n := range lengths {
			all = append(all, workload.Length{Tokens: n, Weight: 0.1})
		}
		return all
	}
	f := func(users, others []workload.Length, want float64) {
		t.Helper()
		if got := wasserstein(users, others); !near(got, want) {
			t.Errorf("%v and %v: %v, want %v", users, others, got, want)
		}
	}
	f([]workload.Length{{Tokens: 100, Weight: 3}}, even(100, 100), 0)
	f([]workload.Length{{Tokens: 100, Weight: 3}}, even(150, 130), 0.4) // 40 tokens of 100 on the mean
	f([]workload.Length{{Tokens: 100, Weight: 1}, {Tokens: 300, Weight: 1}}, even(300, 100), 0)
	f([]workload.Length{{Tokens: 100, Weight: 1}, {Tokens: 300, Weight: 1}}, even(200), 0.5)                // both by 100, of 200
	f([]workload.Length{{Tokens: 100, Weight: 3}, {Tokens: 500, Weight: 1}}, even(500, 100, 500, 100), 0.5) // a quarter by 400, of 200
}

// A length stands for those of its bucket: all of them, evenly in each ratio.
func TestPointsOfBuckets(t *testing.T) {
	points := pointsOf([]float64{1, 5, 10, 200, 500}, []float64{10, 0, -3, 0, 90, 5})
	if points[0] != (workload.Length{Tokens: 1, Weight: 10}) || points[len(points)-1] != (workload.Length{Tokens: 500, Weight: 5}) {
		t.Errorf("points %v", points)
	}
	inside := points[1 : len(points)-1]
	logs, weight := 0.0, 0.0
	for _, p := range inside {
		if p.Tokens <= 200 || p.Tokens > 500 {
			t.Errorf("a length of %d in the bucket from 200 to 500", p.Tokens)
		}
		logs += p.Weight * math.Log(float64(p.Tokens))
		weight += p.Weight
	}
	if want := math.Sqrt(200 * 500); !near(weight, 90) || math.Abs(math.Exp(logs/weight)-want) > 1 {
		t.Errorf("weight %v, middle %v, want 90 and %v", weight, math.Exp(logs/weight), want)
	}
}

// The lengths are unknown before there are 200 requests in at least half an hour, and
// more than a day after.
func TestTrafficIsKnown(t *testing.T) {
	u := newUsers()
	u.count(1000, 100) // before the first reading, at an unknown time
	u.read(0)
	add := func(n int) {
		for range n {
			u.count(300, 30)
		}
	}
	expect := func(what string, want float64) {
		t.Helper()
		m := u.Mix()
		if (m == nil) != (want == 0) || m != nil && m.Requests != want {
			t.Errorf("%s: %+v, want %v requests", what, m, want)
		}
	}
	add(199)
	u.wait(time.Hour)
	expect("199 requests", 0)
	add(1)
	u.wait(5 * time.Minute)
	expect("200 requests", 200)
	add(300)
	u.wait(5 * time.Minute)
	expect("300 more, and those of the latest half an hour", 301)
	u.wait(23 * time.Hour)
	expect("23 hours later", 300) // those of one slot are enough
	u.wait(2 * time.Hour)
	expect("a day later", 0)
}

// Half an hour of traffic is needed, however much it is.
func TestTrafficTakesTime(t *testing.T) {
	u := newUsers()
	u.read(0)
	for range 1000 {
		u.count(300, 30)
	}
	u.wait(20 * time.Minute)
	if m := u.Mix(); m != nil {
		t.Errorf("after 20 minutes: %+v", m)
	}
	u.wait(20 * time.Minute)
	if m := u.Mix(); m == nil || m.Requests != 1000 {
		t.Errorf("after 40 minutes: %+v", m)
	}
}

// Probes of ours that the server counts change nothing, however many they are.
func TestTrafficWithoutOurProbes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	u, quiet := newUsers(), newUsers()
	u.read(0)
	quiet.read(0)
	for range 40 {
		for range 10 {
			input, output := 20+rng.IntN(3000), 1+rng.IntN(300)
			u.count(input, output)
			quiet.count(input, output)
			for _, r := range []*result.Result{counted(256, 64), counted(1000+rng.IntN(100), 8)} {
				u.count(r.Tokens.Prompt, r.Tokens.Output)
				u.Probed(r)
			}
		}
		u.read(2 * time.Minute)
		quiet.read(2 * time.Minute)
	}
	got, want := u.Mix(), quiet.Mix()
	if got == nil || want == nil || !near(got.Requests, want.Requests) || !slices.Equal(got.Inputs, want.Inputs) || !slices.Equal(got.Outputs, want.Outputs) {
		t.Errorf("with probes %+v\nwithout %+v", got, want)
	}
	u.Probed(&result.Result{Tokens: result.Tokens{Prompt: 30, Output: 3, Source: result.TokensFromEvents}})
	if u.read(0); !near(u.Mix().Requests, want.Requests) {
		t.Error("a probe that the server did not count was taken off")
	}
}

// A server that begins again, or goes, takes nothing of what it counted with it.
func TestTrafficOverARestart(t *testing.T) {
	u := newUsers()
	u.read(0)
	for range 300 {
		u.count(300, 30)
	}
	u.wait(40 * time.Minute)
	fresh := newUsers()
	u.counts = fresh.counts
	u.count(300, 30)
	u.read(time.Minute)
	if m := u.Mix(); m == nil || m.Requests != 301 {
		t.Fatalf("after a restart: %+v", m)
	}
	u.Keep(func(string) bool { return false })
	u.read(time.Minute) // the first reading of a new server
	if m := u.Mix(); m == nil || m.Requests != 301 {
		t.Errorf("a server that was replaced: %+v", m)
	}
}

// Two hours after users begin to ask something else, the module asks that: what it draws
// from is less than 10 % from what users ask, as the server counts it, and less than 12 % from
// their lengths themselves, which the server only knows by its buckets.
func TestTrafficIsFollowed(t *testing.T) {
	logNormal := func(rng *rand.Rand, median, sigma float64) int {
		return max(1, int(math.Round(median*math.Exp(sigma*rng.NormFloat64()))))
	}
	var published, fromTruth, atOnce []float64
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 3))
		u := newUsers()
		module := &Estimate{module: new(config.Module)}
		module.follows = &follower{users: u.Traffic, maxInput: 1_000_000, maxOutput: 1_000_000}
		medians := [2][2]float64{{150 + 300*rng.Float64(), 60}, {800 + 2000*rng.Float64(), 200}} // before and after
		var truth [2][]workload.Length                                                           // of the users since the change
		var last *Finding
		u.read(0)
		for minute := 0; minute < 5*60; minute++ {
			changed := minute / (3 * 60)
			for range 20 { // 1,200 in an hour
				lengths := [2]int{logNormal(rng, medians[changed][0], 1), logNormal(rng, medians[changed][1], 0.8)}
				u.count(lengths[0], lengths[1])
				for i, n := range lengths {
					if changed == 1 {
						truth[i] = append(truth[i], workload.Length{Tokens: n, Weight: 1})
					}
				}
			}
			r := counted(256, 64)
			r.Length = 256
			if m := u.Mix(); m != nil {
				r.Tokens.Prompt, r.Tokens.Output = workload.Draw(m.Inputs, rng), workload.Draw(m.Outputs, rng)
			}
			u.count(r.Tokens.Prompt, r.Tokens.Output)
			u.Probed(r)
			last = seen(module, u, r)
			if minute == 3*60+40 {
				atOnce = append(atOnce, last.Likeness.Input)
			}
			u.read(time.Minute)
		}
		if last == nil || last.Likeness == nil {
			t.Fatalf("findings %+v", last)
		}
		published = append(published, last.Likeness.Input, last.Likeness.Output)
		var of [2][]workload.Length
		for _, d := range module.follows.drawn {
			of[0], of[1] = append(of[0], d.inputs...), append(of[1], d.outputs...)
		}
		fromTruth = append(fromTruth, wasserstein(truth[0], of[0]), wasserstein(truth[1], of[1]))
	}
	if worst := slices.Max(published); worst > 0.1 {
		t.Errorf("%.3f from the lengths that the server counts", worst)
	}
	if worst := slices.Max(fromTruth); worst > 0.12 {
		t.Errorf("%.3f from the lengths of users", worst)
	}
	if least := slices.Min(atOnce); least < 0.2 {
		t.Errorf("40 minutes after a change the distance is %.3f: it shows no change", least)
	}
	slices.Sort(fromTruth)
	t.Logf("published at most %.3f; from the lengths of users %.3f in the median, at most %.3f", slices.Max(published), stats.Median(fromTruth), slices.Max(fromTruth))
}

// seen returns what is known after a result.
func seen(e *Estimate, u *users, r *result.Result) *Finding {
	e.Observe([]*result.Result{r}, u.now)
	f, _ := e.Finding(u.now).(*Finding)
	return f
}

// Bounds of the module cut what users ask, and the distance shows it: of lengths of 300 and
// 3000, cut to 1000, half are a third of what they are for users.
func TestTrafficBeyondTheBounds(t *testing.T) {
	u := newUsers()
	module := &Estimate{module: new(config.Module)}
	module.follows = &follower{users: u.Traffic, maxInput: 1000, maxOutput: 1000}
	if f := seen(module, u, counted(256, 64)); f != nil && f.Likeness != nil {
		t.Errorf("without traffic: %+v", f.Likeness)
	}
	u.read(0)
	for range 300 {
		u.count(300, 30)
		u.count(3000, 30)
	}
	u.wait(40 * time.Minute)
	f := seen(module, u, counted(256, 64))
	if f == nil || f.Likeness == nil || f.Likeness.Output > 1e-9 || f.Likeness.Requests != 600 {
		t.Fatalf("%+v", f)
	}
	// By buckets, the lengths are sqrt(200 x 500) and sqrt(2000 x 5000) and around.
	if got, want := f.Likeness.Input, (3274.0-1000)/(327.4+3274); math.Abs(got-want) > 0.01 {
		t.Errorf("distance %.3f, want %.3f", got, want)
	}
}

// pageOf is what a server counts that has answered n requests in each of so many buckets.
func pageOf(buckets int, shift float64, n uint64) Cumulative {
	c := Cumulative{Count: n * uint64(buckets)}
	for i := range buckets {
		c.Bounds = append(c.Bounds, float64(i+1)+shift)
		c.Counts = append(c.Counts, n*uint64(i+1))
	}
	return c
}

// A server that counts up to other bounds at each reading, or up to very many, is left out,
// changes nothing of what the others count and leaves nothing behind.
func TestTrafficOfHostilePages(t *testing.T) {
	u := newUsers()
	u.read(0)
	tooMany := pageOf(24_000, 0, 1)
	for i := range 1000 {
		u.count(300, 30)
		u.read(time.Minute)
		hostile := pageOf(90, float64(i)/1000, uint64(i))
		u.Read("b", hostile, hostile)
		u.Read("c", tooMany, tooMany)
		u.Probed(counted(256, 64))
		u.count(256, 64)
	}
	u.read(time.Minute)
	const slots, cells = 1000/10 + 1, 19
	if m := u.Mix(); m == nil || len(m.Inputs) > 100 || m.Span < 190*time.Minute { // of a request in a minute
		t.Errorf("mix %+v", m)
	}
	if len(u.last) != 1 || len(u.slots) > slots+1 || len(u.slots[0].counts[0]) != cells || len(u.ours[0]) != cells {
		t.Errorf("%d servers, %d slots of %d cells are kept", len(u.last), len(u.slots), len(u.slots[0].counts[0]))
	}
}

// Where all servers count up to other bounds, as after an upgrade, the mix is that of the
// new ones alone.
func TestTrafficOfOtherBounds(t *testing.T) {
	u := newUsers()
	u.read(0)
	for range 300 {
		u.count(300, 30)
	}
	u.wait(40 * time.Minute)
	u.Read("b", pageOf(3, 0, 1), pageOf(3, 0, 1))
	if m := u.Mix(); m == nil || m.Requests != 300 {
		t.Fatalf("beside a server of other bounds: %+v", m)
	}
	read := func(n uint64) {
		u.now = u.now.Add(10 * time.Minute)
		u.Read("a", pageOf(3, 0, n), pageOf(3, 0, n))
	}
	read(1)
	if m := u.Mix(); m != nil {
		t.Errorf("after other bounds: %+v", m)
	}
	for range 5 {
		read(201)
	}
	if m := u.Mix(); m == nil || m.Requests != 600 {
		t.Errorf("of other bounds: %+v", m)
	}
}

// BenchmarkTrafficLinear is a reading of a server with 10 buckets, and with 100.
func BenchmarkTrafficLinear(b *testing.B) {
	reading := func(buckets int) func() {
		u := newUsers()
		pages := [2]Cumulative{pageOf(buckets, 0, 10), pageOf(buckets, 0, 1000)}
		i := 0
		return func() {
			for range 200 { // a mix of many slots
				u.now = u.now.Add(10 * time.Minute)
				i++
				u.Read("a", pages[i%2], pages[i%2])
			}
		}
	}
	testlab.Linear(b, reading(10), reading(100))
}

// FuzzTraffic reads what servers count. Whatever that is, the lengths of users are numbers of
// tokens with weights, and what is kept is bounded.
func FuzzTraffic(f *testing.F) {
	f.Add([]byte{1, 2, 5, 10, 20}, []byte{0, 1, 2, 50, 100}, 0.5, 9)
	f.Add([]byte{0, 0, 1}, []byte{9, 1, 4}, 1e300, -1)
	f.Fuzz(func(t *testing.T, bounds, counts []byte, scale float64, probe int) {
		u := newUsers()
		for reading := range uint64(6) {
			c := Cumulative{Count: 300 * reading}
			for i, b := range bounds {
				c.Bounds = append(c.Bounds, float64(b)*scale)
				if i < len(counts) {
					c.Counts = append(c.Counts, reading*uint64(counts[i]))
				}
			}
			u.now = u.now.Add(10 * time.Minute)
			u.Read("a", c, c)
			u.Probed(counted(probe, probe))
		}
		m := u.Mix()
		if m == nil {
			return
		}
		for _, l := range slices.Concat(m.Inputs, m.Outputs) {
			if l.Tokens < 1 || l.Tokens > maxTrafficLength || !(l.Weight > 0) || math.IsInf(l.Weight, 0) {
				t.Errorf("%+v", l)
			}
		}
		if n := len(m.Inputs); n > 400 {
			t.Errorf("%d lengths", n)
		}
	})
}
