package simulator

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/asset"
	"github.com/inference-exporter/inference_exporter/internal/page/testdata/pages/servers"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

//go:embed faces/*.yml pages/*.yml faults.yml software.yml
var files embed.FS

// read decodes a file, and panics where it cannot: the files are constant, and the tests read each.
func read(file string, into any) {
	data, err := files.ReadFile(file)
	if err != nil {
		panic(err)
	}
	asset.Decode(file, data, into)
}

func compile(texts map[string]string) *template.Template {
	t := template.New("").Funcs(template.FuncMap{
		"sub":     func(a, b int) int { return max(0, a-b) },
		"mul":     func(a, b int) int { return a * b },
		"ms":      func(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()*1000) },
		"ns":      func(d time.Duration) int { return int(d) },
		"json":    jsonOf,
		"rfc3339": func(seconds int64) string { return time.Unix(seconds, 0).UTC().Format(time.RFC3339) },
		"base64":  base64Vector,
	})
	for name, text := range texts {
		template.Must(t.New(name).Parse(text))
	}
	return t
}

// execute writes a template; one that is none writes nothing.
func execute(t *template.Template, name string, to io.Writer, data any) {
	if t = t.Lookup(name); t == nil {
		return
	}
	if err := t.Execute(to, data); err != nil {
		panic(err) // cannot happen: the tests execute each
	}
}

// software is how one server software shows itself: what it answers to questions that generate nothing.
type software struct {
	Name   string            // value of Options.Engine
	Server string            // header Server; "" is none
	Pages  map[string]string // the replies to GET by path: JSON or a text
	// Metrics is the path of the metrics page: the one of the file Live, which tells what the replicas do, or Sample of
	// package servers, which never changes.
	Metrics, Live, Sample string

	sample    []byte
	templates *template.Template
}

// allSoftware lists the software that can be shown. The first is the default.
var allSoftware = sync.OnceValue(func() (all []*software) {
	read("software.yml", &all)
	for _, s := range all {
		var err error
		if s.sample, err = servers.FS.ReadFile(s.Sample); s.Sample != "" && err != nil {
			panic(err) // cannot happen: the tests read each
		}
		s.templates = compile(s.Pages)
	}
	return all
})

// Engines lists the values of Options.Engine, the default first.
func Engines() []string {
	return stats.Map(allSoftware(), func(s *software) string { return s.Name })
}

// softwareOf returns that of an engine, the default one for a name that is none.
func softwareOf(engine string) *software {
	all := allSoftware()
	return all[max(0, slices.IndexFunc(all, func(s *software) bool { return s.Name == engine }))]
}

// pageData is what the templates of pages see.
type pageData struct {
	O       *Options
	S       State
	Created int64 // when the server started, in Unix seconds
	Ready   int   // the number of engines of a gateway that are ready
	Replica int
	What    string // of an observation
}

func (s *Server) servePages(mux *http.ServeMux) {
	switch path := s.software.Metrics; {
	case s.metrics != nil:
		mux.HandleFunc("GET "+path, servePage(s.metrics.text))
	case path != "":
		mux.HandleFunc("GET "+path, servePage(func() []byte { return s.software.sample }))
	}
	data := pageData{O: &s.o, Created: s.started.Unix()}
	for path := range s.software.Pages {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			if s.software.Server != "" {
				w.Header().Set("Server", s.software.Server)
			}
			var b bytes.Buffer
			execute(s.software.templates, path, &b, &data)
			if strings.HasPrefix(b.String(), "{") || strings.HasPrefix(b.String(), "[") {
				w.Header().Set("Content-Type", "application/json")
			}
			_, _ = w.Write(b.Bytes()) // the client is gone
		})
	}
}

// livePage is a metrics page that changes with what is done.
type livePage struct {
	Labels   string // of a family without own
	Bounds   map[string][]float64
	Families []*family
	options  *Options
	data     func() []pageData // as of now, one of each replica
	mu       sync.Mutex        // guards the observations
}

// family is a family of a page, or some of its series. It has one name.
type family struct {
	Gauge, Counter, Histogram string
	Help                      string
	Labels, More              string // as they are written; More come after those of the family or the page
	// Value is that of a series for each replica. Without it Of is the quantity that is observed, Bounds those of a
	// histogram, by name.
	Value, Of, Bounds string

	templates *template.Template
	all       []*observations // in the order of the first observation
	known     map[observed]*observations
}

// observed is what observations are of.
type observed struct {
	replica int
	what    string
}

// observations are those of one series.
type observations struct {
	labels string
	counts []uint64 // by bound
	n      uint64
	sum    float64
}

// livePages are the pages by file, which are not to be changed.
var livePages = sync.OnceValue(func() map[string]*livePage {
	all := map[string]*livePage{}
	names, _ := fs.Glob(files, "pages/*.yml") // never fails: it is a pattern
	for _, name := range names {
		p := &livePage{}
		read(name, p)
		for _, f := range p.Families {
			if f.Labels = cmp.Or(f.Labels, p.Labels); f.More != "" {
				f.Labels += "," + f.More
			}
			f.templates = compile(map[string]string{"labels": f.Labels, "value": f.Value})
		}
		all[name] = p
	}
	return all
})

// newLivePage returns the page of so many replicas. Labels are made of the options, values of data.
func newLivePage(file string, o *Options, replicas int, data func() []pageData) *livePage {
	p := &livePage{Bounds: livePages()[file].Bounds, options: o, data: data}
	for _, f := range livePages()[file].Families {
		f = new(*f)
		f.known = map[observed]*observations{}
		p.Families = append(p.Families, f)
		if f.Of != "" && !strings.Contains(f.Labels, ".What") {
			for i := range replicas { // from the start
				p.observations(f, i, "")
			}
		}
	}
	return p
}

func (f *family) text(name string, d *pageData) string {
	var b strings.Builder
	execute(f.templates, name, &b, d)
	return b.String()
}

// observations returns those of a series, new ones where there are none.
func (p *livePage) observations(f *family, replica int, what string) *observations {
	of := observed{replica, what}
	if f.known[of] == nil {
		labels := f.text("labels", &pageData{O: p.options, Replica: replica, What: what})
		i := slices.IndexFunc(f.all, func(o *observations) bool { return o.labels == labels })
		if i < 0 {
			i = len(f.all)
			f.all = append(f.all, &observations{labels: labels, counts: make([]uint64, len(p.Bounds[f.Bounds]))})
		}
		f.known[of] = f.all[i]
	}
	return f.known[of]
}

func (p *livePage) observe(of string, replica int, what string, v float64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.Families {
		if f.Of != of {
			continue
		}
		o := p.observations(f, replica, what)
		o.n++
		o.sum += v
		if i, _ := slices.BinarySearch(p.Bounds[f.Bounds], v); i < len(o.counts) {
			o.counts[i]++
		}
	}
}

func (p *livePage) text() []byte {
	data := p.data()
	p.mu.Lock()
	defer p.mu.Unlock()
	var b bytes.Buffer
	last := ""
	for _, f := range p.Families {
		name := cmp.Or(f.Gauge, f.Counter, f.Histogram)
		if name != last && (f.Value != "" || len(f.all) > 0) {
			kind := map[string]string{f.Gauge: "gauge", f.Counter: "counter", f.Histogram: "histogram"}[name]
			fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", name, f.Help, name, kind)
			last = name
		}
		for i := range data {
			if f.Value != "" {
				fmt.Fprintf(&b, "%s{%s} %s\n", name, f.text("labels", &data[i]), f.text("value", &data[i]))
			}
		}
		for _, o := range f.all {
			if f.Histogram == "" {
				fmt.Fprintf(&b, "%s{%s} %v\n", name, o.labels, o.sum)
				continue
			}
			sum := uint64(0)
			for i, bound := range p.Bounds[f.Bounds] {
				sum += o.counts[i]
				fmt.Fprintf(&b, "%s_bucket{%s,le=\"%v\"} %d\n", name, o.labels, bound, sum)
			}
			fmt.Fprintf(&b, "%s_bucket{%s,le=\"+Inf\"} %d\n", name, o.labels, o.n)
			fmt.Fprintf(&b, "%s_sum{%s} %v\n%s_count{%s} %d\n", name, o.labels, o.sum, name, o.labels, o.n)
		}
	}
	return b.Bytes()
}

func servePage(page func() []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(page()) // the client is gone
	}
}

func (s *Server) pageData() (all []pageData) {
	for i, state := range s.State() {
		all = append(all, pageData{O: &s.o, S: state, Replica: i})
	}
	return all
}

// observe reports an observation of a request to the metrics page: in seconds where it is a time.
func (r *replica) observe(q *sequence, of string, v float64) {
	r.metrics.observe(of, r.index, strconv.FormatBool(q.stream), v)
}
