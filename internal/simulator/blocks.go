package simulator

// blockPool is the KV cache of one replica: blocks of a fixed number of
// tokens, shared between sequences with the same beginning. A full block is
// found by the hash of all tokens up to its end; a block that nobody uses keeps
// its content until it is taken, least recently used first.
type blockPool struct {
	size   int
	blocks []block        // the last one is the head of the free list
	cached map[uint64]int // hash to block
	free   int

	evicted uint64 // blocks whose content was given up
}

type block struct {
	hash       uint64 // 0 is no cached content
	refs       int
	prev, next int // in the free list, while refs is 0
}

func newBlockPool(blocks, size int) *blockPool {
	p := &blockPool{size: size, blocks: make([]block, blocks+1), cached: make(map[uint64]int)}
	p.blocks[blocks] = block{prev: blocks, next: blocks}
	for i := range blocks {
		p.pushFree(i)
	}
	return p
}

// head is the index of the sentinel of the free list.
func (p *blockPool) head() int { return len(p.blocks) - 1 }

func (p *blockPool) inUse() int { return p.head() - p.free }

// evictable is the number of blocks not in use whose content can be found.
func (p *blockPool) evictable() int {
	n := 0
	for _, b := range p.blocks[:p.head()] {
		if b.refs == 0 && b.hash != 0 {
			n++
		}
	}
	return n
}

func (p *blockPool) pushFree(i int) {
	h := p.head()
	last := p.blocks[h].prev
	p.blocks[i].prev, p.blocks[i].next = last, h
	p.blocks[last].next, p.blocks[h].prev = i, i
	p.free++
}

func (p *blockPool) removeFree(i int) {
	b := p.blocks[i]
	p.blocks[b.prev].next, p.blocks[b.next].prev = b.next, b.prev
	p.free--
}

// match returns the blocks that hold the beginning which hashes describe, as
// far as they are cached, without taking them.
func (p *blockPool) match(hashes []uint64) []int {
	var found []int
	for _, h := range hashes {
		i, ok := p.cached[h]
		if !ok {
			break
		}
		found = append(found, i)
	}
	return found
}

// takeShared makes found, the result of a match, and as many new blocks as
// tokens need beyond them the property of one sequence; or nothing, if there
// are too few.
func (p *blockPool) takeShared(found []int, tokens int) ([]int, bool) {
	unused := 0
	for _, i := range found {
		if p.blocks[i].refs == 0 {
			unused++
		}
	}
	if p.needed(tokens)-len(found) > p.free-unused {
		return nil, false
	}
	for _, i := range found {
		if p.blocks[i].refs == 0 {
			p.removeFree(i)
		}
		p.blocks[i].refs++
	}
	return p.grow(found, tokens)
}

// grow adds blocks until tokens fit; it changes nothing if there are too few.
func (p *blockPool) grow(owned []int, tokens int) ([]int, bool) {
	need := p.needed(tokens) - len(owned)
	if need > p.free {
		return owned, false
	}
	for range need {
		i := p.blocks[p.head()].next
		p.removeFree(i)
		if h := p.blocks[i].hash; h != 0 {
			delete(p.cached, h)
			p.evicted++
		}
		p.blocks[i].hash, p.blocks[i].refs = 0, 1
		owned = append(owned, i)
	}
	return owned, true
}

// publish makes the content of a full block known by its hash.
func (p *blockPool) publish(i int, hash uint64) {
	if _, ok := p.cached[hash]; ok || p.blocks[i].hash != 0 {
		return
	}
	p.blocks[i].hash = hash
	p.cached[hash] = i
}

// release gives blocks back, the last first, so that the end of a text is
// evicted before its beginning.
func (p *blockPool) release(owned []int) {
	for n := len(owned) - 1; n >= 0; n-- {
		i := owned[n]
		p.blocks[i].refs--
		if p.blocks[i].refs == 0 {
			p.pushFree(i)
		}
	}
}

func (p *blockPool) needed(tokens int) int { return (tokens + p.size - 1) / p.size }

// extendHashes brings the chained hashes of the full blocks of tokens up to
// date: each covers its block and all before it.
func extendHashes(hashes []uint64, tokens []token, size int) []uint64 {
	for (len(hashes)+1)*size <= len(tokens) {
		h := uint64(1)
		if len(hashes) > 0 {
			h = hashes[len(hashes)-1]
		}
		for _, t := range tokens[len(hashes)*size : (len(hashes)+1)*size] {
			h = mix(h, uint64(t))
		}
		hashes = append(hashes, h|1) // 0 is no hash
	}
	return hashes
}

// mix folds t into h by the finalizer of SplitMix64 (Steele, Lea, Flood 2014).
func mix(h, t uint64) uint64 {
	h = (h ^ t) + 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
