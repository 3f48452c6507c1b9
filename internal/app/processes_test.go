package app

import (
	"bufio"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// process is the program in a process of its own.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	base string
}

// launch runs the daemon in another process until the test ends.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), runAsProgram+"=1", "GOGC=") // whatever it is for the tests
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: cmd}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			p.kill()
		}
	})
	address := regexp.MustCompile(`msg="Listening on" address=(\S+)`)
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if m := address.FindStringSubmatch(lines.Text()); m != nil {
			p.base = "http://" + m[1]
			break
		}
	}
	if p.base == "" {
		t.Fatalf("%q does not listen", args)
	}
	go func() {
		for lines.Scan() { // so that it never waits for us
		}
	}()
	return p
}

// kill ends the process as SIGKILL does: it has no say in it.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// waitFor scrapes until the page is as wanted.
func (p *process) waitFor(what string, wanted func(metricsPage) bool) metricsPage {
	p.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	deadline := time.After(patience)
	for tick := time.Tick(50 * time.Millisecond); ; {
		_, body := get(p.t, client, p.base+"/metrics")
		got := testlab.ParsePage(p.t, body)
		if wanted(got) {
			return got
		}
		select {
		case <-tick:
		case <-deadline:
			p.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// values returns the values of a label on the samples of a family.
func values(p metricsPage, family, label string) []string {
	found := map[string]bool{}
	for _, m := range p[family].GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == label {
				found[l.GetValue()] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Three exporters share the endpoints of one configuration. One is killed: the
// others go on with what is theirs, and it comes back to what was its own.
func TestThreeShards(t *testing.T) {
	t.Parallel()
	const endpoints, shards = 24, 3
	server := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	var text strings.Builder
	text.WriteString("global: {interval: 200ms}\nmodules: {interactive: {input_tokens: 16, output_tokens: 2}}\nendpoints:\n")
	var all []string
	for i := range endpoints {
		name := fmt.Sprintf("endpoint-%02d", i)
		all = append(all, name)
		fmt.Fprintf(&text, "  - {name: %s, url: %q, api: openai-chat, model: simulated-8b}\n", name, server)
	}
	file := writeFile(t, "exporter.yml", text.String())
	begin := func(i int) *process {
		return launch(t, "--web.listen-address=127.0.0.1:0", "--config.file="+file,
			fmt.Sprint("--shard.index=", i), fmt.Sprint("--shard.count=", shards))
	}
	probed := func(got metricsPage) []string {
		for _, name := range values(got, "inference_endpoint_info", "endpoint") {
			if got.Sum("inference_probe_results_total", "endpoint", name, "outcome", "success") < 2 {
				return nil
			}
		}
		return values(got, "inference_probe_results_total", "endpoint")
	}
	own := make([][]string, shards)
	processes := make([]*process, shards)
	for i := range shards {
		processes[i] = begin(i)
	}
	var union []string
	for i, p := range processes {
		got := p.waitFor("two probes of each endpoint", func(got metricsPage) bool { return probed(got) != nil })
		own[i] = probed(got)
		union = append(union, own[i]...)
		if !got.Has("inference_exporter_shard_info", "index", fmt.Sprint(i), "count", fmt.Sprint(shards)) {
			t.Errorf("exporter %d does not say which shard it is", i)
		}
	}
	slices.Sort(union)
	if diff := cmp.Diff(all, union); diff != "" {
		t.Fatalf("the shards together do not have each endpoint once (-want +got):\n%s", diff)
	}

	processes[1].kill()
	for _, i := range []int{0, 2} {
		before := processes[i].waitFor("a page", func(metricsPage) bool { return true }).Sum("inference_probe_results_total", "outcome", "success")
		got := processes[i].waitFor("probes after the other was killed", func(got metricsPage) bool {
			return got.Sum("inference_probe_results_total", "outcome", "success") >= before+float64(2*len(own[i]))
		})
		if diff := cmp.Diff(own[i], values(got, "inference_probe_results_total", "endpoint")); diff != "" {
			t.Errorf("shard %d has other endpoints since another was killed (-before +after):\n%s", i, diff)
		}
	}
	again := begin(1)
	got := again.waitFor("probes of the shard that came back", func(got metricsPage) bool { return probed(got) != nil })
	if diff := cmp.Diff(own[1], probed(got)); diff != "" {
		t.Errorf("the shard that came back has other endpoints (-before +after):\n%s", diff)
	}
}
