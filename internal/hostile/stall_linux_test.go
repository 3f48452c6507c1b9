package hostile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

const (
	// runAsServer makes the test binary a server that streams, with address and pauses as its value.
	runAsServer = "INFERENCE_EXPORTER_TEST_STREAM"
	// envTrials is how often each case of TestStallSides is tried.
	envTrials = "INFERENCE_EXPORTER_STALL_TRIALS"
	// tokenGap is the time between tokens, and pauseAt the token after which something happens.
	tokenGap, pauseAt, tokensInAll = 40 * time.Millisecond, 25, 50
)

// runStreamServer listens on an address and streams answers, each of which pauses before its first token and in its
// middle, as three words say. A line on standard output says what it begins.
func runStreamServer(as string) {
	words := strings.Fields(as)
	before, _ := time.ParseDuration(words[1])
	within, _ := time.ParseDuration(words[2])
	l, err := net.Listen("tcp", words[0])
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("listens")
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			http.NotFound(w, r)
			return
		}
		fmt.Println("asked")
		time.Sleep(before)
		w.Header().Set("Content-Type", "text/event-stream")
		flush := w.(http.Flusher).Flush
		for i := range tokensInAll {
			fmt.Fprintf(w, `data: {"id":"1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"word "}}]}`+"\n\n")
			flush()
			if i == pauseAt {
				fmt.Println("half")
				time.Sleep(within)
			}
			time.Sleep(tokenGap)
		}
		fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	}))
}

// trial is one probe of a server of its own over a path of its own.
type trial struct {
	network          *network
	port             uint16
	server, exporter *os.Process
}

func (t *trial) signal(p *os.Process, s syscall.Signal) { _ = p.Signal(s) }

// stopFor stops a process for a time.
func (t *trial) stopFor(p *os.Process, d time.Duration) {
	t.signal(p, syscall.SIGSTOP)
	time.Sleep(d)
	t.signal(p, syscall.SIGCONT)
}

// between returns a random time.
func between(least, most time.Duration) time.Duration { return least + rand.N(most-least) }

// stallCase is a way to make a stall, whose side is the truth.
type stallCase struct {
	name          string
	truth         result.Side
	before, pause time.Duration // of the server, before its first token and in mid-answer
	loss          float64       // of the path, from the beginning
	delay         time.Duration
	at            string // what the server says as do begins; "" is never
	do            func(*trial)
	gone          bool // there is no server
}

func stallCases() []stallCase {
	cut := func(t *trial, d time.Duration) {
		t.network.set(t.port, 1, 0)
		time.Sleep(d)
		t.network.set(t.port, 0, 0)
	}
	const forGood = 12 * time.Second
	return []stallCase{
		{name: "cut for a while", truth: result.SideNetwork, at: "half", do: func(t *trial) { cut(t, between(1500*time.Millisecond, 4*time.Second)) }},
		{name: "cut for a while before the first token", truth: result.SideNetwork, before: 300 * time.Millisecond, at: "asked", do: func(t *trial) { cut(t, between(3*time.Second, 4*time.Second)) }},
		{name: "60 % of the segments lost", truth: result.SideNetwork, at: "half", do: func(t *trial) { t.network.set(t.port, 0.6, 0) }},
		{name: "40 % of the segments lost, 60 ms away", truth: result.SideNetwork, delay: 60 * time.Millisecond, at: "half", do: func(t *trial) { t.network.set(t.port, 0.4, 60*time.Millisecond) }},
		{name: "answers of the server lost", truth: result.SideNetwork, at: "half", do: func(t *trial) { t.network.path(t.port)[1].set(0.7, 0) }},
		{name: "segments late by seconds", truth: result.SideNetwork, at: "half", do: func(t *trial) { t.network.set(t.port, 0, between(1500*time.Millisecond, 4*time.Second)) }},
		{name: "host gone in mid-answer", truth: result.SideHost, at: "half", do: func(t *trial) { cut(t, forGood) }},
		{name: "host gone before the first token", truth: result.SideHost, before: 300 * time.Millisecond, at: "asked", do: func(t *trial) { cut(t, forGood) }},
		{name: "host gone from the beginning", truth: result.SideHost, loss: 1, gone: true},
		{name: "server stopped for a while", truth: result.SideServer, at: "half", do: func(t *trial) { t.stopFor(t.server, between(1300*time.Millisecond, 4*time.Second)) }},
		{name: "server stopped for good", truth: result.SideServer, at: "half", do: func(t *trial) { t.stopFor(t.server, forGood) }},
		{name: "server stopped before the first token", truth: result.SideServer, before: 300 * time.Millisecond, at: "asked", do: func(t *trial) { t.stopFor(t.server, forGood) }},
		{name: "server sleeps", truth: result.SideServer, pause: 2500 * time.Millisecond},
		{name: "server sleeps, 200 ms away", truth: result.SideServer, pause: 2500 * time.Millisecond, delay: 200 * time.Millisecond},
		{name: "server sleeps, 3 % of the segments lost", truth: result.SideServer, pause: 4 * time.Second, loss: 0.03},
		{name: "server sleeps before the first token", truth: result.SideServer, before: 3 * time.Second},
		{name: "exporter stopped for a while", truth: result.SideExporter, at: "half", do: func(t *trial) { t.stopFor(t.exporter, between(1600*time.Millisecond, 4*time.Second)) }},
		{name: "exporter starved", truth: result.SideExporter, at: "half", do: func(t *trial) {
			for range 4 {
				t.stopFor(t.exporter, 1700*time.Millisecond)
				time.Sleep(5 * time.Millisecond)
			}
		}},
	}
}

const stallModule = `
modules:
  stall: {input_tokens: 16, output_tokens: 60, prefix: cold, timeout: 30s, timeouts: {connect: 5s, first_token: 8s, stall: 7s}}
endpoints:
  - {name: e, url: "http://%s", api: openai-chat, model: m, modules: [stall]}
`

// try runs a case once and returns the stall that the program reports; nil is none.
func (c *stallCase) try(t *testing.T, n *network, client, server *host, port uint16) *result.DocumentStall {
	address := net.JoinHostPort(server.address, strconv.Itoa(int(port)))
	n.set(port, c.loss, c.delay)
	one := &trial{network: n, port: port}
	var did sync.WaitGroup
	if !c.gone {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s", runAsServer, address, c.before, c.pause))
		said, err := cmd.StdoutPipe()
		if err != nil {
			panic(err)
		}
		if err := server.start(cmd); err != nil {
			panic(err)
		}
		one.server = cmd.Process
		lines := bufio.NewScanner(said)
		if !lines.Scan() || lines.Text() != "listens" {
			panic(lines.Text())
		}
		did.Go(func() {
			for lines.Scan() {
				if lines.Text() == c.at {
					time.Sleep(rand.N(tokenGap))
					did.Go(func() { c.do(one) })
				}
			}
			_ = cmd.Wait()
		})
		defer did.Wait()
		defer func() { one.signal(one.server, syscall.SIGKILL) }()
	}
	file := write(t, t.TempDir(), "exporter.yml", fmt.Sprintf(stallModule, address))
	var out, log bytes.Buffer
	cmd := exec.Command(os.Args[0], "probe", "--config.file="+file, "--module=stall", "-o", "json", "e")
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), runAsProgram+"=1"), &out, &log
	if err := client.start(cmd); err != nil {
		panic(err)
	}
	one.exporter = cmd.Process
	_ = cmd.Wait() // whose code says how the probe ended
	var doc result.Document
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Errorf("%v: %s%s", err, out.Bytes(), log.Bytes())
	}
	return doc.Stall
}

// The side of a stall is right in 95 of 100 cases where one is named, over paths that lose, delay and cut, with servers
// that stop, and with an exporter that does.
func TestStallSides(t *testing.T) {
	needsMinutes(t)
	trials, _ := strconv.Atoi(os.Getenv(envTrials))
	trials = max(6, trials)
	client, server, n := newHost(t, "10.77.0.1"), newHost(t, "10.77.0.2"), &network{paths: map[uint16]*[2]path{}}
	n.join(client, server)
	var (
		mu     sync.Mutex
		judged        = map[string]map[string]int{}
		port   uint16 = 20000
		slots         = make(chan struct{}, 12)
		all    sync.WaitGroup
	)
	for range trials {
		for _, c := range stallCases() {
			port++
			own := port
			all.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				s, side := c.try(t, n, client, server, own), "none"
				if s != nil {
					side = string(s.Side)
				}
				mu.Lock()
				defer mu.Unlock()
				if judged[c.name] == nil {
					judged[c.name] = map[string]int{}
				}
				judged[c.name][side]++
				if s != nil && s.Side != c.truth {
					t.Logf("%s: %+v", c.name, *s)
				}
			})
		}
	}
	all.Wait()
	right, wrong, unknown := 0, 0, 0
	names := append(slices.Clone(result.Sides()), "none")
	var table strings.Builder
	for _, c := range stallCases() {
		fmt.Fprintf(&table, "| %s | %s |", c.name, c.truth)
		for _, side := range names {
			count := judged[c.name][string(side)]
			fmt.Fprintf(&table, " %d |", count)
			switch side {
			case c.truth:
				right += count
			case result.SideUnknown:
				unknown += count
			case "none":
			default:
				wrong += count
			}
		}
		table.WriteByte('\n')
	}
	t.Logf("| case | truth | %v |\n%sright %d, wrong %d, unknown %d", names, table.String(), right, wrong, unknown)
	if named := right + wrong; named == 0 || 100*right < 95*named || 100*unknown > 10*(named+unknown) {
		t.Errorf("right %d, wrong %d, unknown %d", right, wrong, unknown)
	}
}
