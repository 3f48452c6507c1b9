package prove

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/inference-exporter/inference_exporter/tools/lab/prove/board"
	"github.com/inference-exporter/inference_exporter/tools/lab/prove/query"
	"github.com/inference-exporter/inference_exporter/tools/lab/prove/stand"
)

// choices are the values that the variables of a dashboard can have: all, and one
// of each. Not every endpoint and every exporter has everything, so that
// there is a choice for each of those.
type choices struct{ all, one []map[string]string }

// choose returns the choices of a dashboard. A variable without values is an
// error.
func choose(ctx context.Context, c stand.Client, b *board.Board, names *query.Names) (*choices, error) {
	all, one := map[string]string{}, map[string]string{}
	var whose string // the variable that says whose numbers are shown
	var only bool    // a single value of it can be chosen
	for _, v := range b.Variables {
		switch v.Type {
		case "datasource":
			all[v.Name], one[v.Name] = "prometheus", "prometheus"
		case "query":
			values, err := listValues(ctx, c, v, all, names)
			if err != nil {
				return nil, fmt.Errorf("variable %s: %w", v.Name, err)
			}
			one[v.Name], all[v.Name] = values[0], values[0]
			if v.All {
				all[v.Name] = v.AllOf(values)
			}
			if v.Name == "endpoint" || v.Name == "instance" {
				whose, only = v.Name, !v.All
			}
		default:
			return nil, fmt.Errorf("variable %s: type %q is not known here", v.Name, v.Type)
		}
	}
	got := &choices{all: []map[string]string{all}, one: []map[string]string{one}}
	if whose == "" {
		return got, nil
	}
	var err error
	if got.one, err = each(ctx, c, whose, one); err == nil && only {
		got.all, err = each(ctx, c, whose, all)
	}
	return got, err
}

// each returns a copy of a choice for each endpoint or each exporter, with the
// model that belongs to it.
func each(ctx context.Context, c stand.Client, variable string, choice map[string]string) ([]map[string]string, error) {
	has := "group by (endpoint, model) (inference_endpoint_info)"
	if variable == "instance" {
		has = "group by (instance) (inference_exporter_build_info)"
	}
	series, err := c.Instant(ctx, has, time.Now())
	if err != nil {
		return nil, err
	}
	copies := make([]map[string]string, len(series))
	for i, s := range series {
		copies[i] = maps.Clone(choice)
		maps.Copy(copies[i], s.Labels)
	}
	return copies, nil
}

// listValues returns the values that a variable offers.
func listValues(ctx context.Context, c stand.Client, v board.Variable, filled map[string]string, names *query.Names) ([]string, error) {
	listed, err := board.ParseListed(v.Query)
	if err != nil {
		return nil, err
	}
	if listed.Selector != "" {
		e, err := parse(listed.Selector, filled, names)
		if err != nil {
			return nil, err
		}
		listed.Selector = e.String()
	}
	values, err := c.LabelValues(ctx, listed.Label, listed.Selector)
	if err == nil && len(values) == 0 {
		err = fmt.Errorf("%q lists nothing", v.Query)
	}
	return values, err
}
