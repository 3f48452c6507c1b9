package report

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/compare"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// Comparison is a comparison that has ended.
type Comparison struct {
	// Start is when it began, Took how many seconds it took.
	Start   time.Time       `json:"time"`
	Took    float64         `json:"took_seconds"`
	Verdict compare.Verdict `json:"verdict"`
	Module  string          `json:"module"`
	// Baseline and Candidate are what was compared.
	Baseline  Side `json:"baseline"`
	Candidate Side `json:"candidate"`
	// Pairs is how many pairs were probed, of MaxPairs at most.
	Pairs    int `json:"pairs"`
	MaxPairs int `json:"max_pairs"`
	// Alpha bounds the probability of a wrong verdict; Seed made the order.
	Alpha    float64           `json:"alpha"`
	Seed     uint64            `json:"seed"`
	Findings []compare.Finding `json:"quantities"`
}

// End sets what the comparison came to.
func (c *Comparison) End(of *compare.Comparison) {
	c.Verdict, c.Findings, c.Pairs, c.Took = of.Verdict(), of.Findings(), of.Pairs(), time.Since(c.Start).Seconds()
	c.Baseline.Fair, c.Candidate.Fair = c.Baseline.fair.figures(), c.Candidate.fair.figures()
}

// Side is one of the two that are compared, with the results of its probes.
type Side struct {
	Endpoint string                 `json:"endpoint"`
	URL      string                 `json:"url"`
	Outcomes map[result.Outcome]int `json:"outcomes"`
	Fair     map[string]float64     `json:"compared,omitempty"`
	*Summary `json:"-"`
}

// NewSide returns a side without results; price may be nil.
func NewSide(endpoint, url string, price *config.Price) Side {
	s := NewSummary()
	s.Price = price
	return Side{endpoint, url, s.outcomes, nil, s}
}

func quantityTitle(q compare.Quantity) string {
	titles := map[compare.Quantity]string{compare.TTFT: "TTFT", compare.TPOT: "TPOT", compare.WrongAnswers: "wrong answers"}
	return cmp.Or(titles[q], string(q))
}

// Text writes the comparison as a table. Errors are those of w.
func (c *Comparison) Text(w io.Writer, o Options) error {
	p := newPage(o)
	paint := cmp.Or(map[compare.Verdict]color{compare.Pass: green, compare.Regression: red}[c.Verdict], yellow)
	p.line("%s after %s, module %s", p.paint(paint, string(c.Verdict)), Count(c.Pairs, "pair", "pairs"), clean(c.Module))
	p.row("candidate", c.Candidate.Endpoint+" ("+c.Candidate.URL+")")
	p.row("baseline", c.Baseline.Endpoint+" ("+c.Baseline.URL+")")
	rows := [][]string{{"", "baseline", "candidate", "change", "at least", "at most", "margin", "verdict"}}
	for _, f := range c.Findings {
		if f.Verdict == compare.NotMeasured {
			continue
		}
		rows = append(rows, []string{
			quantityTitle(f.Quantity), amount(f.Quantity, f.Baseline), amount(f.Quantity, f.Candidate), change(f.Quantity, f.Change),
			change(f.Quantity, f.Lower), change(f.Quantity, f.Upper), strings.TrimPrefix(change(f.Quantity, f.Margin), "+"), string(f.Verdict),
		})
	}
	p.table("Candidate minus baseline", rows, 13, 9, 10, 9, 9, 9, 8, 11)
	p.line("")
	p.note(fmt.Sprintf("A regression is a change above its margin. A verdict of regression is wrong with a probability of at most %s, "+
		"and so is one of pass, whenever the comparison stops.", percent(c.Alpha)))
	c.fairly(p)
	for _, s := range []struct {
		name string
		side Side
	}{{"baseline", c.Baseline}, {"candidate", c.Candidate}} {
		if failed := s.side.Failed(); failed > 0 {
			p.line("\n%d of %s of the %s did not succeed", failed, Count(s.side.Probes(), "request", "requests"), s.name)
			s.side.listFailures(p)
		}
	}
	return p.writeTo(w)
}

// unlike is the ratio of the lengths of tokens from which on those of two models are not alike.
const unlike = 1.1

// fairly writes what two models whose tokens are not alike have in common.
func (c *Comparison) fairly(p *page) {
	p.section("Text and cost", append(c.Baseline.fair.rows("baseline"), c.Candidate.fair.rows("candidate")...))
	a, b := c.Baseline.Fair["output_characters_per_token"], c.Candidate.Fair["output_characters_per_token"]
	if a > 0 && b > 0 && max(a/b, b/a) > unlike {
		p.note("The tokens of the two are not alike: compare characters/s, and not TPOT.")
	}
}

func amount(q compare.Quantity, v compare.Amount) string {
	switch {
	case v.IsZero():
		return "-"
	case q.IsLatency():
		return result.SecondsInWords(float64(v))
	}
	return percent(float64(v))
}

func percent(v float64) string { return fmt.Sprintf("%.3g %%", 100*v) }

// change renders a change: relative of latencies, in percentage points of shares.
func change(q compare.Quantity, v compare.Amount) string {
	switch {
	case v.IsZero():
		return "-"
	case q.IsLatency():
		return fmt.Sprintf("%+.1f %%", 100*v)
	}
	return fmt.Sprintf("%+.1f pp", 100*v)
}

// JSON writes the comparison as a line: an object with the field `comparison`. Errors are those of w.
func (c *Comparison) JSON(w io.Writer) error {
	return Encode(w, map[string]*Comparison{"comparison": c})
}

// The elements of a report of JUnit, as CI systems read it.
type (
	junitSuite struct {
		XMLName   xml.Name    `xml:"testsuite"`
		Name      string      `xml:"name,attr"`
		Tests     int         `xml:"tests,attr"`
		Failures  int         `xml:"failures,attr"`
		Errors    int         `xml:"errors,attr"`
		Skipped   int         `xml:"skipped,attr"`
		Time      string      `xml:"time,attr"`
		Timestamp string      `xml:"timestamp,attr"`
		Cases     []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Failure *junitMessage `xml:"failure,omitempty"`
		Error   *junitMessage `xml:"error,omitempty"`
		Skipped *junitMessage `xml:"skipped,omitempty"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
	}
)

// JUnit writes the comparison as a suite with a test case for each quantity: a
// regression is a failure, an undecided one an error unless a regression of another
// ended the comparison, one that was not measured skipped. Errors are those of w.
func (c *Comparison) JUnit(w io.Writer) error {
	s := junitSuite{
		Name: "inference_exporter compare", Tests: len(c.Findings),
		Time: fmt.Sprintf("%.3f", c.Took), Timestamp: c.Start.UTC().Format("2006-01-02T15:04:05"),
	}
	for _, f := range c.Findings {
		test := junitCase{Class: clean(c.Candidate.Endpoint + " against " + c.Baseline.Endpoint), Name: quantityTitle(f.Quantity)}
		message := &junitMessage{sentence(f)}
		switch v := f.Verdict; {
		case v == compare.Regression:
			test.Failure = message
			s.Failures++
		case v == compare.NotMeasured, v == compare.Undecided && c.Verdict == compare.Regression:
			test.Skipped = message
			s.Skipped++
		case v == compare.Undecided:
			test.Error = message
			s.Errors++
		}
		s.Cases = append(s.Cases, test)
	}
	text, err := xml.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, text)
	return err
}

func sentence(f compare.Finding) string {
	if f.Verdict == compare.NotMeasured {
		return "the replies do not show it, or the module does not check it"
	}
	q := f.Quantity
	return fmt.Sprintf("baseline %s, candidate %s, change %s (%s to %s), margin %s, %s",
		amount(q, f.Baseline), amount(q, f.Candidate), change(q, f.Change), change(q, f.Lower), change(q, f.Upper),
		change(q, f.Margin), Count(f.Pairs, "pair", "pairs"))
}
