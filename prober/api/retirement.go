package api

import (
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
func (r Retirement) End() int64 {
	if r.Header == 0 || r.Listed != 0 && r.Listed < r.Header {
		return r.Listed
	}
	return r.Header
}

// Add takes over what another reply says.
func (r *Retirement) Add(of Retirement) {
	for to, from := range map[*int64]int64{&r.Header: of.Header, &r.Listed: of.Listed, &r.Deprecated: of.Deprecated} {
		if from != 0 {
			*to = from
		}
	}
}

// RetirementFrom reads the headers of a reply: Sunset (RFC 8594), Deprecation (RFC 9745; of older drafts the date, while
// "true" says no date) and Mistral's x-model-deprecation-timestamp, after which the model is removed.
func RetirementFrom(h http.Header, now time.Time) Retirement {
	end := dateIn(h.Get("Sunset"))
	if end == 0 {
		end = dateIn(h.Get("X-Model-Deprecation-Timestamp"))
	}
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

// farthest is how far a date may be from now: others are a mistake or stand for none.
const farthest = 10 * 365 * 24 * time.Hour

// Believed returns a date, and 0 for one that is too far from now.
func Believed(date int64, now time.Time) int64 {
	if date <= 0 || (date-now.Unix()) > int64(farthest.Seconds()) || (now.Unix()-date) > int64(farthest.Seconds()) {
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
	if at, err := http.ParseTime(text); err == nil {
		return at.Unix()
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.Unix()
		}
	}
	return 0
}
