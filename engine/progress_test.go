package engine

import (
	"fmt"
	"strings"
	"testing"
)

// Of ranks that tell both, the one that stands still tells when the server last
// worked as a whole: the others hide it in the sum.
func TestProgressOfRanks(t *testing.T) {
	const mapping = `
sentinels: ["acme:up"]
copies: [pid]
values: {requests_running: [{series: run}], requests_waiting: [{series: wait}]}
progress: [{series: tokens}, {series: steps}]
`
	// ranks is a page of ranks: running and tokens of each.
	ranks := func(numbers ...int) string {
		var b strings.Builder
		for i := 0; i < len(numbers); i += 2 {
			fmt.Fprintf(&b, "run{rank=\"%d\",pid=\"7\"} %d\ntokens_total{rank=\"%d\"} %d\n", i, numbers[i], i, numbers[i+1])
		}
		return b.String()
	}
	type step struct {
		page string
		want int // the reading that the time is of, from 1
	}
	for _, tc := range []struct {
		name  string
		steps []step
	}{
		{"all move", []step{{ranks(1, 5, 1, 5), 1}, {ranks(1, 6, 1, 7), 2}}},
		{"one is frozen", []step{{ranks(1, 5, 1, 5), 1}, {ranks(1, 6, 1, 6), 2}, {ranks(1, 7, 1, 6), 2}, {ranks(1, 8, 1, 6), 2}, {ranks(1, 9, 1, 7), 4 + 1}}},
		{"first one is frozen", []step{{ranks(1, 5, 1, 5), 1}, {ranks(1, 5, 1, 6), 1}}},
		{"in turns", []step{{ranks(1, 5, 1, 5), 1}, {ranks(1, 6, 1, 5), 1}, {ranks(1, 6, 1, 6), 2}}},
		{"frozen one has nothing to do", []step{{ranks(1, 5, 0, 5), 1}, {ranks(1, 6, 0, 5), 2}}},
		{"first frozen one has nothing to do", []step{{ranks(0, 5, 1, 5), 1}, {ranks(0, 5, 1, 6), 2}}},
		{"frozen one gets a request", []step{{ranks(1, 5, 0, 5), 1}, {ranks(1, 6, 0, 5), 2}, {ranks(1, 7, 1, 5), 2}, {ranks(1, 8, 1, 5), 2}}},
		{"frozen one ends its requests", []step{{ranks(1, 5, 1, 5), 1}, {ranks(1, 6, 1, 5), 1}, {ranks(1, 7, 0, 5), 3}}},
		{"frozen one is gone", []step{{ranks(1, 5, 1, 5, 1, 5), 1}, {ranks(1, 6, 1, 6, 1, 5), 1}, {ranks(1, 7, 1, 7), 3}}},
		{"a new one", []step{{ranks(1, 5, 1, 5), 1}, {ranks(1, 6, 1, 6, 1, 0), 2}, {ranks(1, 7, 1, 7, 1, 0), 2}}},
		{"one restarts", []step{{ranks(1, 5, 1, 5), 1}, {ranks(1, 6, 1, 0), 2}}},
		{"second source moves", []step{{ranks(1, 5, 1, 5) + "steps{rank=\"2\"} 1\n", 1}, {ranks(1, 6, 1, 5) + "steps{rank=\"2\"} 2\n", 2}}},
		{"none runs, some wait", []step{{ranks(0, 5, 0, 5) + "wait 1\n", 1}, {ranks(0, 5, 0, 5) + "wait 1\n", 1}}},
		{"all idle", []step{{ranks(0, 5, 0, 5) + "wait 0\n", 1}, {ranks(0, 5, 0, 5) + "wait 0\n", 2}}},
		{"progress has other labels", []step{{"run{rank=\"0\"} 1\nrun{rank=\"1\"} 1\ntokens 5\n", 1}, {"run{rank=\"0\"} 1\nrun{rank=\"1\"} 1\ntokens 6\n", 2}}},
		{"a rank tells no progress", []step{{ranks(1, 5, 1, 5) + "run{rank=\"x\"} 1\n", 1}, {ranks(1, 6, 1, 5) + "run{rank=\"x\"} 1\n", 2}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newPageLab(t, mapping)
			at := make([]int64, len(tc.steps)+1)
			for i, st := range tc.steps {
				s := l.read("acme:up 1\n" + st.page)
				at[i+1] = l.now.Unix()
				if s.LastProgress.Unix() != at[st.want] {
					t.Errorf("page %d: %v, want that of reading %d", i+1, s.LastProgress, st.want)
				}
			}
		})
	}
}

// What is kept of ranks is bounded, and only of those that are there.
func TestManyRanks(t *testing.T) {
	l := newPageLab(t, "sentinels: ['acme:up']\nvalues: {requests_running: [{series: run}]}\nprogress: [{series: tokens}]")
	page := func(name string, n int) string {
		var b strings.Builder
		b.WriteString("acme:up 1\n")
		for i := range n {
			fmt.Fprintf(&b, "run{rank=\"%s%d\"} 1\ntokens{rank=\"%s%d\"} 1\n", name, i, name, i)
		}
		return b.String()
	}
	for _, name := range []string{"a", "b"} {
		l.read(page(name, maxRanks))
		if n := len(l.reader.ranks); n != maxRanks {
			t.Errorf("%d ranks are kept, want %d", n, maxRanks)
		}
	}
	l.read(page("b", maxRanks+1))
	if n := len(l.reader.ranks); n != 0 {
		t.Errorf("%d ranks are kept of too many", n)
	}
}
