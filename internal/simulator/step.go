package simulator

import (
	"container/list"
	"slices"
	"time"
)

// prefillChunk is how many prompt tokens a step computes at most, over all sequences (chunked prefill).
const prefillChunk = 512

// step is one pass of the model over the batch.
type step struct {
	work    []work
	prefill int     // prompt tokens
	samples int     // sequences that get a token
	paced   float64 // prefill with each token weighed by the pace of its sequence
	early   float64 // by how much more than 1 the paces of the first tokens are, summed
}

// work is the part of one sequence in a step.
type work struct {
	seq     *sequence
	compute int  // tokens
	prompt  bool // which are of a prompt, or of a text lost by a preemption
	sample  bool // and one new token after them
}

// duration is the time that a step takes. The cost of sampling is paid only where a token comes out, so that an
// uncontended prompt of P uncached tokens has its first token after pace x (P/rate + DecodeStep), whatever its length.
func (s *step) duration(o *Options) time.Duration {
	d := time.Duration(s.paced / o.PrefillTokensPerSecond * float64(time.Second))
	if s.samples > 0 {
		d += time.Duration(max(0, 1+s.early) * float64(o.DecodeStep))
		d += time.Duration(s.samples-1) * o.DecodeStepPerSequence
	}
	return d
}

// plan decides what the next step does, and returns how long it takes. The batch goes on first, in the order of
// admission; then the queue moves up, unless blocks were so short that a sequence had to be preempted.
func (r *replica) plan(now time.Time) time.Duration {
	preempted := false
	for i := 0; i < len(r.running); i++ {
		q := r.running[i]
		n := r.chunk(q)
		if n == 0 {
			continue
		}
		for {
			var fits bool
			if q.blocks, fits = r.pool.grow(q.blocks, q.computed+n); fits {
				r.assign(q, n)
				break
			}
			preempted = true
			if r.preemptLast() == q {
				break
			}
		}
	}
	for !preempted && len(r.waiting) > 0 && len(r.running) < r.o.Slots && r.step.prefill < prefillChunk {
		if !r.admit(r.waiting[0], now) {
			break
		}
	}
	return r.step.duration(r.o)
}

// chunk is how many tokens of q the step at hand may still compute.
func (r *replica) chunk(q *sequence) int {
	left := len(q.tokens) - q.computed
	if left == 1 && q.generated() > 0 {
		return 1
	}
	return r.share(left)
}

// share is how many tokens of a prompt that has so many left the step at hand computes.
func (r *replica) share(left int) int { return min(left, r.o.LongPrefill, prefillChunk-r.step.prefill) }

func (r *replica) assign(q *sequence, n int) {
	left := len(q.tokens) - q.computed
	w := work{seq: q, compute: n, prompt: left > 1 || q.generated() == 0, sample: n == left}
	if w.prompt {
		r.step.prefill += n
		r.step.paced += float64(n) * q.pace
	}
	if w.sample {
		r.step.samples++
		if q.generated() == 0 {
			r.step.early += q.pace - 1
		}
	}
	r.step.work = append(r.step.work, w)
}

// admit moves the head of the queue into the batch, with what the prefix cache has of it; false means that there are
// too few blocks. The last token is always computed: the next one comes from it. So is each token of a text that is
// scored: the cache has no log-probabilities.
func (r *replica) admit(q *sequence, now time.Time) bool {
	full := min(len(q.hashes), (len(q.tokens)-1)/r.o.BlockSize)
	if q.scored {
		full = 0
	}
	found := r.pool.match(q.hashes[:full])
	cached := len(found) * r.o.BlockSize
	n := r.share(len(q.tokens) - cached)
	blocks, ok := r.pool.takeShared(found, cached+n)
	if !ok {
		return false
	}
	q.blocks, q.computed = blocks, cached
	r.waiting = slices.Delete(r.waiting, 0, 1)
	r.running = append(r.running, q)
	r.count.PrefillCached += cached
	if q.now.scheduled.IsZero() { // for the first time
		if !q.scored { // else it is not looked up
			r.count.PrefixQueries += q.prompt
			r.count.PrefixHits += cached
		}
		q.now.scheduled, q.now.cached = now, cached
	}
	r.assign(q, n)
	return true
}

// preemptLast sends the sequence that was admitted last back to the head of the queue, and returns it.
func (r *replica) preemptLast() *sequence {
	q := r.running[len(r.running)-1]
	r.running = r.running[:len(r.running)-1]
	r.pool.release(q.blocks)
	q.blocks, q.computed = nil, 0
	r.waiting = slices.Insert(r.waiting, 0, q)
	r.count.Preemptions++
	return q
}

// commit makes the results of the step real: computed blocks become findable, sampled tokens visible.
func (r *replica) commit(now time.Time) {
	for _, w := range r.step.work {
		q := w.seq
		if q.now.finish != "" {
			continue // aborted meanwhile
		}
		if w.prompt {
			r.count.PrefillComputed += w.compute
		}
		from := q.computed / r.o.BlockSize
		q.computed += w.compute
		for i := from; i < q.computed/r.o.BlockSize; i++ {
			r.pool.publish(q.blocks[i], q.hashes[i])
		}
		if w.sample {
			r.sample(q, now)
		}
	}
	clear(r.step.work) // do not keep ended sequences alive
	r.step = step{work: r.step.work[:0]}
}

func (r *replica) sample(q *sequence, now time.Time) {
	q.tokens = append(q.tokens, generatedToken|token(q.generated()))
	q.hashes = extendHashes(q.hashes, q.tokens, r.o.BlockSize)
	r.count.GeneratedTokens++
	q.now.tokens++
	if q.now.tokens > 1 {
		r.observe(q, "inter_token", now.Sub(q.last).Seconds())
	} else {
		q.now.first = now
		r.count.PromptTokens += q.prompt
		r.count.CachedTokens += q.now.cached
		r.count.FirstTokens++
		r.observe(q, "first_token", now.Sub(q.now.arrival).Seconds())
	}
	q.last = now
	switch {
	case q.generated() == q.output:
		r.end(q, q.reason) // the finish reason goes out with the last token
	case !q.quiet:
		wake(q.ready)
	}
}

// blockPool is the KV cache of one replica: blocks of a fixed number of tokens, shared between sequences with the same
// beginning. A full block is found by the hash of all tokens up to its end; a block that nobody uses keeps its content
// until it is taken, least recently used first.
type blockPool struct {
	size, blocks int
	cached       map[uint64]*block // by hash
	free         *list.List        // the blocks without a reference, least recently used first
	evicted      int               // blocks whose content was given up
}

type block struct {
	hash  uint64 // 0 is no cached content
	refs  int
	place *list.Element // in the free list, while refs is 0
}

func newBlockPool(blocks, size int) *blockPool {
	p := &blockPool{size: size, blocks: blocks, cached: make(map[uint64]*block), free: list.New()}
	for range blocks {
		p.release([]*block{{refs: 1}})
	}
	return p
}

func (p *blockPool) inUse() int { return p.blocks - p.free.Len() }

// evictable is the number of blocks not in use whose content can be found.
func (p *blockPool) evictable() int {
	n := 0
	for e := p.free.Front(); e != nil; e = e.Next() {
		if e.Value.(*block).hash != 0 {
			n++
		}
	}
	return n
}

// match returns the blocks that hold the beginning which hashes describe, as far as they are cached.
func (p *blockPool) match(hashes []uint64) []*block {
	var found []*block
	for _, h := range hashes {
		b, ok := p.cached[h]
		if !ok {
			break
		}
		found = append(found, b)
	}
	return found
}

// takeShared makes found, the result of a match, and as many new blocks as tokens need beyond them the property of one
// sequence; or nothing, if there are too few.
func (p *blockPool) takeShared(found []*block, tokens int) ([]*block, bool) {
	free := p.free.Len()
	for _, b := range found {
		if b.refs == 0 {
			free--
		}
	}
	if p.needed(tokens)-len(found) > free {
		return nil, false
	}
	for _, b := range found {
		p.take(b)
	}
	return p.grow(found, tokens)
}

func (p *blockPool) take(b *block) {
	if b.refs == 0 {
		p.free.Remove(b.place)
	}
	b.refs++
}

// grow adds blocks until tokens fit; it changes nothing if there are too few.
func (p *blockPool) grow(owned []*block, tokens int) ([]*block, bool) {
	need := p.needed(tokens) - len(owned)
	if need > p.free.Len() {
		return owned, false
	}
	for range need {
		b := p.free.Front().Value.(*block)
		p.take(b)
		if b.hash != 0 {
			delete(p.cached, b.hash)
			b.hash = 0
			p.evicted++
		}
		owned = append(owned, b)
	}
	return owned, true
}

// publish makes the content of a full block known by its hash.
func (p *blockPool) publish(b *block, hash uint64) {
	if p.cached[hash] == nil && b.hash == 0 {
		b.hash, p.cached[hash] = hash, b
	}
}

// release gives blocks back, the last first, so that the end of a text is evicted before its beginning.
func (p *blockPool) release(owned []*block) {
	for _, b := range slices.Backward(owned) {
		if b.refs--; b.refs == 0 {
			b.place = p.free.PushBack(b)
		}
	}
}

func (p *blockPool) needed(tokens int) int { return (tokens + p.size - 1) / p.size }

// extendHashes brings the hashes of the full blocks of tokens up to date: each covers its block and all before it.
func extendHashes(hashes []uint64, tokens []token, size int) []uint64 {
	for (len(hashes)+1)*size <= len(tokens) {
		h := uint64(1)
		if len(hashes) > 0 {
			h = hashes[len(hashes)-1]
		}
		hashes = append(hashes, fold(h, tokens[len(hashes)*size:(len(hashes)+1)*size])|1) // 0 is no hash
	}
	return hashes
}

func fold(h uint64, tokens []token) uint64 {
	for _, t := range tokens {
		h = mix(h, uint64(t))
	}
	return h
}

// mix folds t into h by the finalizer of SplitMix64 (Steele, Lea, Flood 2014).
func mix(h, t uint64) uint64 {
	h = (h ^ t) + 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
