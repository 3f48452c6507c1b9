package simulator

// view is the state of one replica, or of several together, at one instant.
type view struct {
	o       *Options
	replica int // the index, of a view of one
	class   class

	slots            int
	running, waiting int
	prefilling       int // running without a token yet
	paused           int // waiting after a preemption
	reserved         int // tokens that the running may come to hold
	prefill          int // prompt tokens in the step at hand
	blocks, used     int
	evictable        int // blocks not in use whose content can be found
	evicted          uint64
	byClass          [classes]stats
	stats            *stats // of the classes that the view shows

	inputs *inputCounts // about the requests that generate nothing
	before *stats       // what an earlier reading of the page saw
}

// view returns the state as of now.
func (r *replica) view() *view {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := &view{
		o: r.o, replica: r.index, slots: r.o.Slots, running: len(r.running), waiting: len(r.waiting),
		blocks: r.o.Blocks, used: r.pool.inUse(), evictable: r.pool.evictable(), evicted: r.pool.evicted,
	}
	if r.looping {
		v.prefill = r.step.prefill
	}
	for _, q := range r.running {
		v.reserved += q.prompt + q.output
		if q.generated() == 0 {
			v.prefilling++
		}
	}
	for _, q := range r.waiting {
		if q.begun {
			v.paused++
		}
	}
	for c := range r.stats {
		v.byClass[c] = r.stats[c].clone()
	}
	return v
}

// add puts the state of another replica into v.
func (v *view) add(other *view) {
	v.slots += other.slots
	v.running += other.running
	v.waiting += other.waiting
	v.prefilling += other.prefilling
	v.paused += other.paused
	v.reserved += other.reserved
	v.prefill += other.prefill
	v.blocks += other.blocks
	v.used += other.used
	v.evictable += other.evictable
	v.evicted += other.evicted
	for c := range v.byClass {
		v.byClass[c].add(&other.byClass[c])
	}
}

// all makes v show the counters of all classes together, and returns it.
func (v *view) all() *view {
	all := v.byClass[unary].clone()
	all.add(&v.byClass[streaming])
	all.add(&v.byClass[shared])
	v.stats = &all
	return v
}

// only returns a copy of v that shows the counters of one class.
func (v *view) only(c class) *view {
	one := *v
	one.class, one.stats = c, &one.byClass[c]
	return &one
}

// views returns the state of each replica as of now.
func (s *Server) views() []*view {
	inputs := s.inputs.clone()
	var views []*view
	for _, r := range s.replicas {
		v := r.view()
		v.inputs = inputs
		views = append(views, v.all())
	}
	return views
}

// A scope decides for what the metrics of a group are, given the views of the
// replicas.
type scope func(replicas []*view) []*view

// eachReplica is one view for each replica.
func eachReplica(replicas []*view) []*view { return replicas }

// together is one view of everything.
func together(replicas []*view) []*view {
	v := *replicas[0]
	for c := range v.byClass {
		v.byClass[c] = v.byClass[c].clone()
	}
	for _, other := range replicas[1:] {
		v.add(other)
	}
	return []*view{v.all()}
}

// eachClass is one view for each class of requests that there was one of:
// real servers make such series with the first request.
func eachClass(replicas []*view) []*view {
	all := together(replicas)[0]
	var views []*view
	for _, c := range []class{unary, streaming} {
		if v := all.only(c); v.stats.submitted+v.stats.rejected > 0 {
			views = append(views, v)
		}
	}
	return views
}

// The values that several engines show, in the unit of the name.

func (v *view) requestsRunning() float64 { return float64(v.running) }
func (v *view) requestsWaiting() float64 { return float64(v.waiting) }
func (v *view) requestsInside() float64  { return float64(v.running + v.waiting) }
func (v *view) requestsEnded() float64   { return float64(v.stats.completed()) }
func (v *view) requestsRefused() float64 { return float64(v.stats.rejected) }
func (v *view) requestsAborted() float64 { return float64(v.stats.finished[finishAbort]) }
func (v *view) requestsSeen() float64    { return float64(v.stats.submitted + v.stats.rejected) }
func (v *view) requestsPaused() float64  { return float64(v.paused) }
func (v *view) preemptions() float64     { return float64(v.stats.preemptions) }
func (v *view) requestsMax() float64     { return float64(v.slots) }
func (v *view) blockSize() float64       { return float64(v.o.BlockSize) }
func (v *view) contextLength() float64   { return float64(v.o.ContextLength) }
func (v *view) blocksTotal() float64     { return float64(v.blocks) }
func (v *view) blocksUsed() float64      { return float64(v.used) }
func (v *view) blocksFree() float64      { return float64(v.blocks - v.used) }
func (v *view) blocksRatio() float64     { return ratio(uint64(v.used), uint64(v.blocks)) }
func (v *view) blocksReused() float64    { return float64(v.stats.reusedBlocks) }
func (v *view) blocksMissed() float64    { return float64(v.stats.missedBlocks) }
func (v *view) capacity() float64        { return float64(v.blocks * v.o.BlockSize) }
func (v *view) tokensReserved() float64  { return float64(v.reserved) }
func (v *view) tokensUsed() float64      { return float64(v.used * v.o.BlockSize) }
func (v *view) tokensEvictable() float64 { return float64(v.evictable * v.o.BlockSize) }
func (v *view) tokensEmpty() float64 {
	return float64((v.blocks - v.used - v.evictable) * v.o.BlockSize)
}
func (v *view) tokensEvicted() float64   { return float64(v.evicted) * v.blockSize() }
func (v *view) steps() float64           { return float64(v.stats.observed[batchSize].count()) }
func (v *view) queryTokens() float64     { return float64(v.stats.queries) }
func (v *view) hitTokens() float64       { return float64(v.stats.hits) }
func (v *view) hitRatio() float64        { return ratio(v.stats.hits, v.stats.queries) }
func (v *view) promptTokens() float64    { return float64(v.stats.prompt) }
func (v *view) cachedTokens() float64    { return float64(v.stats.cached) }
func (v *view) uncachedTokens() float64  { return float64(v.stats.prompt - v.stats.cached) }
func (v *view) generatedTokens() float64 { return float64(v.stats.generated) }
func (v *view) endedPrompt() float64     { return float64(v.stats.ended.Prompt) }
func (v *view) endedCached() float64     { return float64(v.stats.ended.Cached) }
func (v *view) endedGenerated() float64  { return float64(v.stats.ended.Generated) }

// none is the value of what is there and never happens here.
func none(*view) float64 { return 0 }

// one is the value of what tells by its labels.
func one(*view) float64 { return 1 }

// ratio is part over all, and 0 while there is nothing, as real servers have
// it.
func ratio(part, all uint64) float64 {
	if all == 0 {
		return 0
	}
	return float64(part) / float64(all)
}
