package api

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fastjson"
)

// Retirement is when the API or the model that is asked is said to end, in Unix seconds; 0 is not known.
type Retirement struct {
	// Header is the end by the headers of a reply, and Listed that of the model by the server's list of models.
	Header, Listed int64
	// Deprecated is since when it is, or will be, discouraged, which says nothing of its end.
	Deprecated int64
}

// End returns the earlier end; 0 is not known.
func (r Retirement) End() int64 { return min(cmp.Or(r.Header, r.Listed), cmp.Or(r.Listed, r.Header)) }

// Learn takes over what another reply says. A success says all: what fails is answered by something between, too.
func (r *Retirement) Learn(of Retirement, success bool) {
	if success {
		*r = Retirement{}
	}
	*r = Retirement{cmp.Or(of.Header, r.Header), cmp.Or(of.Listed, r.Listed), cmp.Or(of.Deprecated, r.Deprecated)}
}

// RetirementFrom reads the headers of a reply: Sunset (RFC 8594), Deprecation (RFC 9745; of older drafts the date, while
// "true" says no date) and Mistral's x-model-deprecation-timestamp, after which the model is removed.
func RetirementFrom(h http.Header, now time.Time) Retirement {
	end := cmp.Or(dateIn(h.Get("Sunset")), dateIn(h.Get("X-Model-Deprecation-Timestamp")))
	return Retirement{Header: Believed(end, now), Deprecated: Believed(dateIn(h.Get("Deprecation")), now)}
}

// retirementIn returns when a listed model is said to end: by shutdown_date (OpenAI, its page of deprecations),
// expiration_date (OpenRouter, type Model of its SDKs) or deprecation, which is a time (Mistral, whose SDKs warn that the
// model is removed then) or has one for inference (Azure OpenAI, REST 2024-10-21). Anthropic's list has none.
func retirementIn(m *fastjson.Value) int64 {
	for _, at := range []*fastjson.Value{m.Get("shutdown_date"), m.Get("expiration_date"), m.Get("deprecation"), m.Get("deprecation", "inference")} {
		if date := max(dateIn(string(at.GetStringBytes())), int64(number(at))); date > 0 {
			return date
		}
	}
	return 0
}

// farthest is how many seconds a date may be from now: others are a mistake or stand for none.
const farthest = 10 * 365 * 86400

// Believed returns a date, and 0 for one that is too far from now.
func Believed(date int64, now time.Time) int64 {
	if gap := date - now.Unix(); date <= 0 || max(gap, -gap) > farthest {
		return 0
	}
	return date
}

// dateIn returns the date of a text in Unix seconds; 0 is none. It is that of HTTP, of structured fields (@ and seconds)
// or of ISO 8601, whose days begin in UTC.
func dateIn(text string) int64 {
	text = strings.TrimSpace(text)
	if seconds, ok := strings.CutPrefix(text, "@"); ok {
		n, _ := strconv.ParseInt(seconds, 10, 64) // the nearest where it is out of range, which is not believed
		return n
	}
	for _, layout := range []string{http.TimeFormat, time.RFC850, time.ANSIC, time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.Unix()
		}
	}
	return 0
}
