package simulator

import (
	"maps"
	"sync"
	"time"
)

// task is what a request without generation wants of each of its texts.
type task int

const (
	embed   task = iota
	predict      // the relevance to a query
	tasks        // how many there are
)

// inputStats counts the requests that generate nothing.
type inputStats struct {
	mu sync.Mutex
	inputCounts
}

type inputCounts struct {
	begun, succeeded map[string]uint64 // requests, by method: single or batch
	invalid          uint64            // requests refused
	texts, done      [tasks]uint64
	requestTime      histogram // seconds, of a request that succeeded
	textTime         [tasks]histogram
	textTokens       histogram
	batchTexts       histogram
	batchTokens      histogram
}

// boundsTEI are those of TEI's times, in seconds.
func boundsTEI() []float64 { return geometric(.000015, 1.5, 35) }

func newInputStats() *inputStats {
	powers := geometric(1, 2, 20)
	c := inputCounts{
		begun: make(map[string]uint64), succeeded: make(map[string]uint64), requestTime: newHistogram(boundsTEI()),
		textTokens: newHistogram(powers), batchTexts: newHistogram(powers), batchTokens: newHistogram(powers),
	}
	for t := range tasks {
		c.textTime[t] = newHistogram(boundsTEI())
	}
	return &inputStats{inputCounts: c}
}

// clone returns the counts as of now.
func (s *inputStats) clone() *inputCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.inputCounts
	c.begun, c.succeeded = maps.Clone(c.begun), maps.Clone(c.succeeded)
	for _, h := range []*histogram{&c.requestTime, &c.textTokens, &c.batchTexts, &c.batchTokens} {
		*h = h.clone()
	}
	for t := range tasks {
		c.textTime[t] = c.textTime[t].clone()
	}
	return &c
}

// task is embed, unless there is a query.
func (in *inputs) task() task {
	if len(in.query) > 0 {
		return predict
	}
	return embed
}

// method is single or batch, in the words of TEI.
func (in *inputs) method() string {
	if in.task() == embed && len(in.texts) == 1 {
		return "single"
	}
	return "batch"
}

// began counts a request that is about to be answered.
func (s *inputStats) began(in *inputs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun[in.method()]++
	s.texts[in.task()] += uint64(len(in.texts))
}

// refused counts a request that was not in order.
func (s *inputStats) refused() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.invalid++
}

// computed counts a request at its end.
func (s *inputStats) computed(in *inputs, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := in.task()
	s.succeeded[in.method()]++
	s.done[t] += uint64(len(in.texts))
	s.requestTime.observeTime(took)
	for _, text := range in.texts {
		s.textTime[t].observeTime(took)
		s.textTokens.observe(float64(len(in.query) + len(text)))
	}
	s.batchTexts.observe(float64(len(in.texts)))
	s.batchTokens.observe(float64(in.tokens()))
}
