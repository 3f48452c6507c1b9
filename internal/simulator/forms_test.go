package simulator

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

const toolRequest = `{"messages":[{"content":"What is the weather in Paris?"}],"max_tokens":64,"stream":true,
"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{
"city":{"type":"string"},"unit":{"type":"string","enum":["celsius","fahrenheit"]}}}}}]}`

// TestSpoiltCalls checks what a call is, and each way in which it can be spoilt, in
// the chunks of chat completions.
func TestSpoiltCalls(t *testing.T) {
	const (
		begun = `"tool_calls":[{"id":"call_1","type":"function","index":0,"function":{"name":"get_weather","arguments":""}}]`
		ended = `"finish_reason":"tool_calls"`
	)
	piece := func(text string) string {
		return `"tool_calls":[{"index":0,"function":{"arguments":` + jsonOf(text) + `}}]`
	}
	for v, want := range map[result.Verdict][]string{
		result.VerdictValid:             {begun, piece(`{"ci`), piece(`ty":`), piece(`"Par`), piece(`is",`), piece(`"uni`), piece(`t":"`), piece(`cels`), piece(`ius"`), piece(`}`), ended},
		result.VerdictBadJSON:           {begun, piece(`city`), piece(`":"P`), ended},
		result.VerdictBadSchema:         {begun, piece(`{"lo`), piece(`cati`), ended},
		result.VerdictWrongTool:         {`"name":"functions.get_weather:0"`, ended},
		result.VerdictNoCall:            {`"content":"It i"`, `"finish_reason":"stop"`},
		result.VerdictLeakedIntoContent: {`"content":"<too`, `"finish_reason":"stop"`},
		result.VerdictTruncated:         {begun, piece(`{"ci`), piece(`ty":`), piece(`"Par`), piece(`is",`), ended},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := serve(t, Options{}, false)
			defer s.stop()
			path := "/v1/chat/completions"
			if v != result.VerdictValid {
				path = "/fault/call_" + string(v) + path
			}
			rest := s.post(context.Background(), path, toolRequest, 1<<20).body
			for _, part := range want {
				_, after, ok := strings.Cut(rest, part)
				if !ok {
					t.Errorf("%s: no %s in its place in\n%s", v, part, rest)
					return
				}
				rest = after
			}
			synctest.Wait()
			if r, _ := s.Request(trace); r.Verdict != v {
				t.Errorf("%s: recorded as %q", v, r.Verdict)
			}
		})
	}
}
