package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
)

func parseProfile(data []byte) (profile Profile, mistakes []lineError) {
	requests, mistakes := parseTrace(data, false)
	for _, one := range requests {
		profile = append(profile, one.At)
	}
	return profile, mistakes
}

// The forms of the public traces: lines of the Azure LLM inference traces 2023 and 2024 (with
// zone), of BurstGPT in both of its forms, and of Mooncake.
func TestProfileForms(t *testing.T) {
	f := func(name, text string, want ...time.Duration) {
		t.Helper()
		profile, mistake := parseProfile([]byte(text))
		if mistake != nil {
			t.Errorf("%s: line %d: %v", name, mistake[0].line, mistake[0].err)
		} else if !slices.Equal(profile, want) {
			t.Errorf("%s: got %v, want %v", name, profile, want)
		}
	}
	const ms, s = time.Millisecond, time.Second
	f("Azure 2023", "TIMESTAMP,ContextTokens,GeneratedTokens\n"+
		"2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600,3180,8\n2023-11-16 18:17:05,110,27\n", 0, 52*ms, 1020040*time.Microsecond)
	f("Azure 2024", "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"+
		"2024-05-10 00:00:00.009930+00:00,2162,5\r\n2024-05-10 00:00:01.009930+00:00,2399,6\r\n", 0, s)
	f("BurstGPT", "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"+
		"5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,230,1317,Conversation log\n118,GPT-4,417,276,693,Conversation log\n", 0, 40*s, 113*s)
	f("BurstGPT with sessions", "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"+
		"10454400.0,a,1.5,ChatGPT,1,2,3,API log\n10454400.5,b,1.5,ChatGPT,1,2,3,API log\n", 0, 500*ms)
	f("Mooncake", `{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}`+"\n"+
		`{"timestamp": 0, "input_length": 7322, "output_length": 490, "hash_ids": [0, 14]}`+"\n"+
		`{"timestamp": 3000, "input_length": 13544, "output_length": 71, "hash_ids": [0]}`+"\n", 0, 0, 3*s)
	f("seconds", "0\n0.25\n\n1e1\n", 0, 250*ms, 10*s)
	f("dates in lines", "\ufeff2026-01-02T23:59:59+01:00\n2026-01-02T23:00:00Z\n", 0, s)
	f("a name", "timestamp\n1700000000\n1700000002.5\n", 0, 2500*ms)
}

// The lengths in the same forms; an answer that failed has 0 tokens in BurstGPT.
func TestTraceForms(t *testing.T) {
	f := func(name, text string, want ...TracedRequest) {
		t.Helper()
		trace, mistake := parseTrace([]byte(text), true)
		if mistake != nil {
			t.Errorf("%s: line %d: %v", name, mistake[0].line, mistake[0].err)
		} else if !slices.Equal(trace, want) {
			t.Errorf("%s: got %v, want %v", name, trace, want)
		}
	}
	const s = time.Second
	f("Azure", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.5,4808,10\n2023-11-16 18:17:04,3180,8\n",
		TracedRequest{0, 4808, 10}, TracedRequest{s / 2, 3180, 8})
	f("BurstGPT", "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,0,472,API log\n45,ChatGPT,1087,230,1317,API log\n",
		TracedRequest{0, 472, 1}, TracedRequest{40 * s, 1087, 230})
	f("Mooncake", `{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}`+"\n"+
		`{"timestamp": 3000, "input_length": 13544, "output_length": 71, "hash_ids": [0]}`+"\n",
		TracedRequest{0, 6758, 500}, TracedRequest{3 * s, 13544, 71})
}

func TestTraceMistakes(t *testing.T) {
	f := func(name, text string, line int, want string) {
		t.Helper()
		trace, mistake := parseTrace([]byte(text), true)
		if mistake == nil {
			t.Errorf("%s: accepted with %d requests", name, len(trace))
		} else if mistake[0].line != line || mistake[0].err.Error() != want {
			t.Errorf("%s: got %d: %v, want %d: %s", name, mistake[0].line, mistake[0].err, line, want)
		}
	}
	const columns = "no columns with lengths; want ContextTokens and GeneratedTokens, Request tokens and Response tokens, or input_length and output_length in the header"
	f("seconds alone", "0\n1\n", 1, columns)
	f("half of the lengths", "timestamp,ContextTokens\n0,1\n1,1\n", 1, columns)
	f("of two recordings", "timestamp,ContextTokens,output_length\n0,1,1\n1,1,1\n", 1, columns)
	f("no number", "timestamp,input_length,output_length\n0,1,1\n1,many,1\n", 3, `expected a number of tokens up to 2000000, got "many"`)
	f("negative", "timestamp,input_length,output_length\n0,1,1\n1,1,-1\n", 3, `expected a number of tokens up to 100000, got "-1"`)
	f("too long", "timestamp,input_length,output_length\n0,2000001,1\n", 2, `expected a number of tokens up to 2000000, got "2000001"`)
	f("no lengths in JSON", `{"timestamp": 1, "input_length": 1}`+"\n", 1, "no lengths; want input_length and output_length in each line")
	f("a text in JSON", `{"timestamp": 1, "input_length": 1, "output_length": "1"}`+"\n", 1, `expected a number of tokens up to 100000, got "\"1\""`)
	f("no time", "timestamp,input_length,output_length\n0,1,1\n0,1,1\n", 3, "want at least two arrivals, and time between them")
}

func TestProfileMistakes(t *testing.T) {
	f := func(name, text string, line int, want string) {
		t.Helper()
		profile, mistake := parseProfile([]byte(text))
		if mistake == nil {
			t.Errorf("%s: accepted with %d arrivals", name, len(profile))
		} else if mistake[0].line != line || mistake[0].err.Error() != want {
			t.Errorf("%s: got %d: %v, want %d: %s", name, mistake[0].line, mistake[0].err, line, want)
		}
	}
	const (
		few    = "want at least two arrivals, and time between them"
		column = "no column timestamp; want a header with one, or a number of seconds in each line"
		object = "want an object in each line, with the number of milliseconds as timestamp"
	)
	f("empty", "", 1, few)
	f("a header alone", "timestamp,model\n", 1, few)
	f("all at once", "5\n5\n", 2, few)
	f("no column", "time,model\n1,m\n", 1, column)
	f("two columns without a header", "1,2\n3,4\n", 1, column)
	f("a text", "1\nsoon\n", 2, `expected a number of seconds or a date such as 2026-01-02 15:04:05.678, got "soon"`)
	f("columns", "timestamp,model\n1,m\n2\n", 3, "wrong number of fields")
	f("order", "1\n3\n2.5\n", 3, "earlier than the arrival before; want them in the order of time")
	f("negative", "1\n-1\n", 2, "expected a time of 0 to 9e9 s, got -1 s")
	f("not a number", "1\nNaN\n", 2, "expected a time of 0 to 9e9 s, got NaN s")
	f("a year", "0\n40000000\n", 2, "more than a year after the first arrival")
	f("no timestamp", `{"timestamp": 1}`+"\n\n"+`{"time": 2}`+"\n", 3, object)
	f("not JSON", `{"timestamp": 1}`+"\n2\n", 2, object)
	f("too many", strings.Repeat("0\n", 100_000)+"1\n", 100_001, "more than 100000 arrivals; want a part of the recording")
}

// A recording has the rate of the file or, where one is asked for, that one, with its
// proportions kept.
func TestProfileAtRate(t *testing.T) {
	name := filepath.Join(t.TempDir(), "arrivals.txt")
	if err := os.WriteFile(name, []byte("10\n11\n13\n14\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := func(rate string, want ...time.Duration) {
		t.Helper()
		text := fmt.Sprintf("modules: {m: {concurrency: [3], timeout: 30s, arrivals: {process: recorded, profile_file: %s%s}}}\nendpoints: [{url: http://h}]\n", name, rate)
		c, err := Parse([]byte(text), "f.yml")
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Modules["m"].Arrivals.Profile; !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", rate, got, want)
		}
	}
	const s = time.Second
	f("", 0, s, 3*s, 4*s)                        // three gaps in 4 s are 0.75 a second
	f(", rate: 1.5", 0, s/2, 3*s/2, 2*s)         // twice that
	f(", rate: 0.375", 0, 2*s, 6*s, 8*s)         // half of it
	f(", rate: 750", 0, s/1000, 3*s/1000, s/250) // a thousand times
}

func TestProfileSpans(t *testing.T) {
	const s = time.Second
	p := Profile{0, s, 3 * s, 4 * s, 9 * s}
	f := func(n int, want ...time.Duration) {
		t.Helper()
		if got := p.Spans(n); !slices.Equal(got, want) {
			t.Errorf("%d: got %v, want %v", n, got, want)
		}
	}
	f(2, s, 2*s, s, 5*s)
	f(3, 3*s, 3*s, 6*s)
	f(5, 9*s)
	f(6)
	f(0)
}

// FuzzProfile checks that no file panics, and that an accepted one rises from 0.
func FuzzProfile(f *testing.F) {
	for _, name := range []string{"../examples/arrivals.csv", "testdata/order.profile.csv"} {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("0\n1.5\n"))
	f.Add([]byte(`{"timestamp": 0}` + "\n" + `{"timestamp": 27}`))
	f.Add([]byte(`{"timestamp": 0, "input_length": 1, "output_length": 2}` + "\n" + `{"timestamp": 27, "input_length": 1, "output_length": 2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if trace, mistake := parseTrace(data, true); mistake == nil {
			for _, r := range trace {
				if r.Input < 1 || r.Input > maxInputTokens || r.Output < 1 || r.Output > maxOutputTokens {
					t.Errorf("not lengths: %+v", r)
				}
			}
		}
		profile, mistake := parseProfile(data)
		if mistake != nil {
			if mistake[0].line < 1 || mistake[0].err == nil || profile != nil {
				t.Errorf("%+v with %d arrivals", mistake, len(profile))
			}
			return
		}
		if n := len(profile); n < 2 || n > maxTraceRequests || profile[0] != 0 || profile[n-1] <= 0 || !slices.IsSorted(profile) {
			t.Errorf("not a profile: %v", profile)
		}
		if scaled := profile.atRate(4); !slices.IsSorted(scaled) || scaled[0] != 0 {
			t.Errorf("not a profile at another rate: %v", scaled)
		}
	})
}

// The objective of the endpoint finds no knee in arrivals, as it does in bursts.
func TestArrivalsHaveNoKnee(t *testing.T) {
	e := &Endpoint{SLO: &SLO{TTFT: model.Duration(time.Second)}}
	burst := &Module{Concurrency: []int{8}}
	if got := e.SLOWith(burst).TTFT; got != model.Duration(time.Second) {
		t.Errorf("bursts are compared with %s, want 1s", got)
	}
	burst.Arrivals = &Arrivals{Process: ArrivalPoisson, Rate: 4}
	if got := e.SLOWith(burst).TTFT; got != 0 {
		t.Errorf("arrivals are compared with %s, want nothing", got)
	}
}
