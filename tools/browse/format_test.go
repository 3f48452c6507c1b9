package browse

import (
	"encoding/json"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/inference-exporter/inference_exporter/tools/browse/fake"
)

// TestNumbersAsWritten asks the page's own module how it writes numbers. What is
// not a known number is a dash, never 0 or NaN.
func TestNumbersAsWritten(t *testing.T) {
	p := open(t, serve(t, fake.NewBoard()).URL, "/config", laptop)
	for _, c := range []struct{ call, want string }{
		{"seconds(0)", "0 ms"},
		{"seconds(0.000123)", "0.123 ms"},
		{"seconds(0.0853)", "85.3 ms"},
		{"seconds(0.09996)", "100 ms"},
		{"seconds(0.1234)", "123 ms"},
		{"seconds(0.9994)", "999 ms"},
		{"seconds(0.9996)", "1.00 s"},
		{"seconds(1.234)", "1.23 s"},
		{"seconds(9.996)", "10.0 s"},
		{"seconds(12.34)", "12.3 s"},
		{"seconds(180)", "180 s"},
		{"seconds(7260)", "2 h 1 min"},
		{"seconds(undefined)", "–"},
		{"seconds(null)", "–"},
		{"seconds(NaN)", "–"},
		{"seconds(Infinity)", "–"},
		{"seconds('7')", "–"},
		{"age(-3)", "0 s"},
		{"age(59.9)", "59 s"},
		{"age(60)", "1 min"},
		{"age(3600)", "1 h 0 min"},
		{"age(90000)", "1 d 1 h"},
		{"ratio(0)", "0 %"},
		{"ratio(0.004)", "0.4 %"},
		{"ratio(0.62)", "62 %"},
		{"ratio(1)", "100 %"},
		{"ratio(undefined)", "–"},
		{"number(0)", "0"},
		{"number(1234567)", "1,234,567"},
		{"number(0.123456)", "0.1235"},
		{"number(undefined)", "–"},
		{"bytes(0)", "0 B"},
		{"bytes(1536)", "1.5 KiB"},
		{"bytes(85899345920)", "80.0 GiB"},
		{"bytes(undefined)", "–"},
		{"plural(1, 'probe')", "1 probe"},
		{"plural(0, 'probe')", "0 probes"},
		{"exactTime(1800000000)", "2027-01-15 08:00:00 UTC"},
	} {
		got := run(p, chromedp.Evaluate[json.RawMessage]("import('/assets/format.js').then(f => f."+c.call+")", chromedp.EvalAwaitPromise))
		var text string
		if err := json.Unmarshal(got, &text); err != nil || text != c.want {
			t.Errorf("%s is %s, want %q", c.call, got, c.want)
		}
	}
}
