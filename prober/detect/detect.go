// Package detect finds out what answers at a URL: the wire protocol, the models, the server software and its version.
// It asks a few cheap questions in a fixed order and believes only what the replies say about themselves.
//
// Every question is a GET that costs the server nothing. Some pages that look just as harmless do cost: /health runs a
// generation on SGLang and calls every upstream of LiteLLM, and /metrics takes away or resets numbers on trtllm-serve
// and llama.cpp. Those are never asked.
package detect

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// MaxBody is the longest body of a reply that is read, in bytes.
const MaxBody = 1 << 20

// questionTimeout bounds every question but the first, so that a page that hangs leaves time for the others;
// without an answer to the first there are none.
const questionTimeout = 5 * time.Second

// ErrUnrecognised is a server that answers but speaks no protocol of package api, as far as its replies show.
var ErrUnrecognised = errors.New("no known inference api")

// Reply is the answer to one question.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// Getter does one GET under the settings of the endpoint, its key included. It follows no redirect and need not read a
// body further than one byte past MaxBody. Its errors must hold no secret.
type Getter func(ctx context.Context, url string) (*Reply, error)

// Finding is what is known of a server. Texts in it are printable.
type Finding struct {
	// API is the wire protocol to use, a name of package api: openai-chat
	// wherever the server speaks it, as that compares best; else its own.
	API string
	// Engine is the server software, a name of api.Engines, "" is unknown; Version its version, ""
	// where it is not known.
	Engine, Version string
	Models          []api.ModelInfo // the models that it lists; nil where it gave no list
	// Evidence has one line for each question, in order: "GET /v1/models: 200, 1 model, owned_by vllm".
	Evidence []string
}

// Detect finds out what base is: the URL of a server, with or without the version segment. A URL that is already that
// of a protocol means this protocol. A hosted API is known by its host name and not asked.
//
// When ctx ends early, what was found until then counts. Where the server only says that it wants a key, it is taken
// for openai-chat, which the Evidence says. The error is that of the first question when nothing answers it, that of
// ctx when it ended too early, and ErrUnrecognised when no reply shows a protocol.
func Detect(ctx context.Context, base *url.URL, get Getter) (Finding, error) {
	given, path := byPath(base)
	if name := hosted(base); name != "" {
		return Finding{
			API:      cmp.Or(given, name),
			Evidence: []string{"host " + printable(base.Hostname()) + ": a hosted API, known by name and not asked"},
		}, nil
	}
	d := &detection{get: get, given: given, models: modelsURL(base, path), asked: map[string]bool{}}
	for q, ok := d.next(); ok && ctx.Err() == nil; q, ok = d.next() {
		if err := d.ask(ctx, q); err != nil {
			return d.found, err
		}
	}
	d.askPurpose(ctx)
	f, err := d.verdict()
	if err != nil && ctx.Err() != nil {
		return f, fmt.Errorf("stopped after %d questions: %w", len(f.Evidence), context.Cause(ctx))
	}
	return f, err
}

type detection struct {
	get      Getter
	given    string // the protocol that the URL is of; "" is none
	models   *url.URL
	asked    map[string]bool // by path
	answered bool            // there was a reply
	wantsKey bool            // the list of models needs a key
	refusal  string          // what the latest refusal with words said
	found    Finding
}

// next returns the first question that is still of use.
func (d *detection) next() (question, bool) {
	for _, q := range questions() {
		if !d.asked[q.path] && q.wanted(&d.found) {
			return q, true
		}
	}
	return question{}, false
}

// ask asks one question. An error means that the server cannot be asked.
func (d *detection) ask(ctx context.Context, q question) error {
	if d.answered {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, questionTimeout, fmt.Errorf("timed out after %s", questionTimeout))
		defer cancel()
	}
	d.asked[q.path] = true
	u := d.url(q.path)
	reply, err := d.get(ctx, u.String())
	if err != nil {
		d.note(u, "no reply: "+printable(err.Error()))
		if !d.answered {
			return fmt.Errorf("nothing answers GET %s: %w", u.EscapedPath(), err)
		}
		return nil
	}
	d.answered = true
	d.note(u, fmt.Sprintf("%d, %s", reply.Status, d.read(q, reply)))
	return nil
}

// read takes from a reply what it says, and returns that in words.
func (d *detection) read(q question, r *Reply) string {
	header, said := readHeader(&d.found, r.Header), ""
	switch {
	case r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden:
		d.wantsKey = d.wantsKey || q.path == modelsPath
		said = "needs a key, or another one" + d.words(r)
	case r.Status >= 300 && r.Status < 400:
		to, _, _ := strings.Cut(r.Header.Get("Location"), "?") // may hold a key
		said = "a redirect to " + printable(to) + ", not followed"
	case r.Status != http.StatusOK:
		said = cmp.Or(strings.ToLower(http.StatusText(r.Status)), "no known status") + d.words(r)
	case len(r.Body) > MaxBody:
		said = "too long to read"
	default:
		said = cmp.Or(q.read(&d.found, r.Body), "says nothing known")
	}
	return join(header, said)
}

// words returns the server's own words in a refusal, where they are other than those of the refusal before.
func (d *detection) words(r *Reply) string {
	e := api.ParseHTTPError(r.Status, r.Body)
	known := e.Message == d.refusal || strings.EqualFold(e.Message, http.StatusText(r.Status))
	if known || !bytes.ContainsFunc(r.Body, unicode.IsLetter) {
		return ""
	}
	d.refusal = e.Message
	return ": " + printable(e.Error())
}

// askPurpose finds out whether a vLLM only embeds, which its list of models
// does not say: of the paths that it has, GET is refused with 405.
func (d *detection) askPurpose(ctx context.Context) {
	if d.found.Engine != api.VLLM || d.found.API != openaiChat || d.found.Version == "" {
		return
	}
	const embeddings, chat = "/v1/embeddings", "/v1/chat/completions"
	if d.statusOf(ctx, embeddings) == http.StatusMethodNotAllowed && d.statusOf(ctx, chat) == http.StatusNotFound {
		d.found.API = openaiEmbeddings
		d.note(d.url(chat), "404, while GET "+embeddings+" is 405: the model only embeds")
	}
}

// statusOf returns the status of a page that takes no GET; 0 for no answer.
func (d *detection) statusOf(ctx context.Context, path string) int {
	ctx, cancel := context.WithTimeout(ctx, questionTimeout)
	defer cancel()
	reply, err := d.get(ctx, d.url(path).String())
	if err != nil {
		return 0
	}
	return reply.Status
}

func (d *detection) note(u *url.URL, text string) {
	d.found.Evidence = append(d.found.Evidence, "GET "+u.EscapedPath()+": "+text)
}

func (d *detection) verdict() (Finding, error) {
	f := d.found
	switch {
	case d.given != "":
		f.API = d.given
		f.Evidence = append(f.Evidence, "api "+d.given+" by the path of the URL")
	case f.API != "":
		return f, nil
	case f.Engine != "" && f.Engine != api.TEI:
		// Only its list of models failed: still loading, or without the key.
		f.API = openaiChat
	case d.wantsKey && f.Engine == "":
		f.API = openaiChat
		f.Evidence = append(f.Evidence, "api "+openaiChat+" is assumed, since the list of models needs a key")
	case f.Engine != "":
		return f, fmt.Errorf("%w: a model of %s that no protocol can probe", ErrUnrecognised, f.Engine)
	default:
		return f, fmt.Errorf("%w after %d questions", ErrUnrecognised, len(f.Evidence))
	}
	return f, nil
}

// maxOthers is how many other models a stanza lists.
const maxOthers = 20

// Stanza returns a configuration file that probes base as the finding says, without defaults. It takes the
// first model that is no adapter and lists the others in a comment, which says so where none is known. A hosted
// service, which is paid for by the token, is probed rarely and within a budget.
func Stanza(f Finding, base *url.URL) string {
	var b strings.Builder
	_, isPaid := api.LookupHost(base.Hostname())
	if isPaid {
		b.WriteString("global: {interval: 5m}   # each probe is paid for: about 320 tokens\n")
	}
	fmt.Fprintf(&b, "endpoints:\n  - url: %s\n    api: %s\n", scalar(base.String()), f.API)
	switch p, ok := api.Lookup(f.API); {
	case len(f.Models) > 0:
		model := api.BaseModels(f.Models)[0].ID
		fmt.Fprintf(&b, "    model: %s%s\n", scalar(model), others(f.Models, model))
	case !ok || !p.ModelOptional:
		reason := "no list of models could be read"
		if f.Models != nil {
			reason = "the server lists no model"
		}
		fmt.Fprintf(&b, "    # model: to be set, as %s\n", reason)
	}
	if isPaid {
		b.WriteString("    budget: {tokens_per_hour: 10000}   # twice what these probes take; with price also usd_per_day\n")
	}
	return b.String()
}

// others is a comment with the names of all models but one: those to take instead, and the adapters of models.
func others(models []api.ModelInfo, taken string) string {
	base := api.BaseModels(models)
	var instead, adapters []string
	for _, m := range models {
		switch isBase := slices.ContainsFunc(base, func(b api.ModelInfo) bool { return b.ID == m.ID }); {
		case m.ID == taken:
		case isBase:
			instead = append(instead, m.ID)
		default:
			adapters = append(adapters, m.ID)
		}
	}
	text := join(some("or ", instead), some("adapters: ", adapters))
	if text == "" {
		return ""
	}
	return " # " + text
}

// some lists names after a word, not too many of them; "" for none.
func some(word string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	more := ""
	if n := len(names) - maxOthers; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
		names = names[:maxOthers]
	}
	return word + strings.Join(names, ", ") + more
}

// scalar returns s as YAML on one line, quoted where it must be.
func scalar(s string) string {
	text, err := yaml.Marshal(s)
	if err != nil {
		panic(err) // cannot happen: a string
	}
	return strings.TrimSuffix(string(text), "\n")
}

const (
	maxText    = 200 // bytes of a server's text that are repeated
	maxVersion = 64  // bytes of a version
	maxModel   = 256 // bytes of a model's name
)

// setVersion keeps a version as the server writes it and returns it in words; what is no version is left out.
func (f *Finding) setVersion(v string) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-+_"
	if v == "" || len(v) > maxVersion || strings.Trim(v, letters) != "" {
		return ""
	}
	f.Version = v
	return "version " + v
}

// usable returns the models whose names can be printed, and so written to a terminal and a file.
func usable(models []api.ModelInfo) []api.ModelInfo {
	return slices.DeleteFunc(models, func(m api.ModelInfo) bool {
		return m.ID == "" || len(m.ID) > maxModel || !safetext.Printable(m.ID)
	})
}

// printable returns a server's text for people: cut off where it is long, and
// quoted where it could do something to a terminal.
func printable(s string) string {
	limit := maxText
	if !safetext.Printable(s) {
		limit /= 4 // a byte is four when quoted
	}
	s = safetext.Cut(s, limit)
	if !safetext.Printable(s) {
		return strconv.Quote(s)
	}
	return s
}

// join joins the parts that are not empty.
func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}
