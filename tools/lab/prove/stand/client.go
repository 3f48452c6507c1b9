package stand

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// queryTimeout bounds one question to a Prometheus.
	queryTimeout = 30 * time.Second
	// maxAnswer bounds its answer in bytes.
	maxAnswer = 64 << 20
)

// Client asks a Prometheus.
type Client struct {
	// Base is the URL of the server, without a path.
	Base string
}

// Series is one series of an answer.
type Series struct {
	Labels map[string]string
	Points []Point
}

// Point is a value at a time. A native histogram has its number of observations
// as the value.
type Point struct {
	Time  time.Time
	Value float64
}

// Numbers returns how many points of all series there are, and how many of them
// are numbers.
func Numbers(all []Series) (points, numbers int) {
	for _, s := range all {
		points += len(s.Points)
		for _, p := range s.Points {
			if !math.IsNaN(p.Value) {
				numbers++
			}
		}
	}
	return points, numbers
}

// Instant asks for the value of an expression at an instant.
func (c Client) Instant(ctx context.Context, expr string, at time.Time) ([]Series, error) {
	return c.query(ctx, "/api/v1/query", url.Values{"query": {expr}, "time": {stamp(at)}})
}

// Range asks for the values of an expression from a time to another.
func (c Client) Range(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]Series, error) {
	return c.query(ctx, "/api/v1/query_range", url.Values{
		"query": {expr}, "start": {stamp(from)}, "end": {stamp(to)}, "step": {step.String()},
	})
}

// LabelValues asks for the values of a label of the series that a selector
// matches; an empty selector matches all.
func (c Client) LabelValues(ctx context.Context, label, selector string) ([]string, error) {
	form := url.Values{}
	if selector != "" {
		form.Set("match[]", selector)
	}
	var values []string
	err := c.get(ctx, "/api/v1/label/"+url.PathEscape(label)+"/values", form, &values)
	return values, err
}

func stamp(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }

func (c Client) query(ctx context.Context, path string, form url.Values) ([]Series, error) {
	var data struct {
		ResultType string          `json:"resultType"`
		Result     json.RawMessage `json:"result"`
	}
	if err := c.get(ctx, path, form, &data); err != nil {
		return nil, err
	}
	if data.ResultType == "scalar" {
		var p pair
		err := json.Unmarshal(data.Result, &p)
		return []Series{{Points: []Point{Point(p)}}}, err
	}
	var result []struct {
		Metric     map[string]string `json:"metric"`
		Value      *pair             `json:"value"`
		Values     []pair            `json:"values"`
		Histogram  *pair             `json:"histogram"`
		Histograms []pair            `json:"histograms"`
	}
	if err := json.Unmarshal(data.Result, &result); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	all := make([]Series, len(result))
	for i, r := range result {
		points := append(r.Values, r.Histograms...)
		for _, p := range []*pair{r.Value, r.Histogram} {
			if p != nil {
				points = append(points, *p)
			}
		}
		all[i].Labels = r.Metric
		for _, p := range points {
			all[i].Points = append(all[i].Points, Point(p))
		}
	}
	return all, nil
}

// pair reads [time, "value"] and [time, {"count": "value", ...}].
type pair Point

// UnmarshalJSON implements json.Unmarshaler.
func (p *pair) UnmarshalJSON(text []byte) error {
	var at float64
	var raw json.RawMessage
	if err := json.Unmarshal(text, &[]any{&at, &raw}); err != nil {
		return err
	}
	var value string
	if json.Unmarshal(raw, &value) != nil {
		var h struct {
			Count string `json:"count"`
		}
		if err := json.Unmarshal(raw, &h); err != nil {
			return err
		}
		value = h.Count
	}
	var err error
	p.Time = time.UnixMilli(int64(math.Round(at * 1000)))
	p.Value, err = strconv.ParseFloat(value, 64)
	return err
}

// get asks, and reads the data of the answer into data.
func (c Client) get(ctx context.Context, path string, form url.Values, data any) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Base+path+"?"+form.Encode(), nil)
	if err != nil {
		return err
	}
	request.Close = true // so that no connection outlives the server
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer := struct {
		Status string `json:"status"`
		Error  string `json:"error"`
		Data   any    `json:"data"`
	}{Data: data}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&answer); err != nil {
		return fmt.Errorf("read the answer with status %d: %w", response.StatusCode, err)
	}
	if answer.Status != "success" {
		return errors.New(strings.TrimSpace(answer.Error))
	}
	return nil
}
