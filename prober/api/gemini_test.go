package api

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOddGemini(t *testing.T) {
	f := func(name, chunks string, change func(*reply)) {
		t.Helper()
		checkOdd(t, "gemini", name, chunks, change)
	}
	const (
		hi  = `{"candidates":[{"content":{"parts":[{"text":"hi"}]}}]}`
		end = `{"candidates":[{"finishReason":"STOP"}]}`
	)
	good := func(r *reply) { hiReply(r); r.Done = false }
	f("plain", hi+"\n"+end, good)
	f("text and finish together", `{"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}]}`, good)
	f("nulls, other types, no candidates", "{}\n"+`{"candidates":null,"usageMetadata":null,"promptFeedback":null}`+"\n"+`{"candidates":[null]}`+"\n"+`{"candidates":[{"content":{"parts":null},"finishReason":null}]}`+"\n"+
		`{"candidates":[{"content":{"role":"model"}}]}`+"\n"+`{"candidates":[{"content":{"parts":[null,7,{},{"text":7},{"text":"","thought":true}]}}],"promptFeedback":{}}`+"\n"+hi+"\n"+end, good)
	f("a signature is no token", `{"candidates":[{"content":{"parts":[{"thoughtSignature":"Ci"}]}}]}`+"\n"+hi+"\n"+end, good)
	f("keep-alive as data", ": keepalive\n"+hi+"\n"+end, good)
	f("thought beside text", `{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":"h"},{"text":"i"}]}}]}`+"\n"+end, func(r *reply) { good(r); r.Reasoning, r.Summaries = "hm", 1 })
	f("function calls", `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"a":1}}},{"functionCall":{"name":"g"}}]}}]}`+"\n"+end, func(r *reply) { good(r); r.Text, r.Tool = "", `f{"a":1}g` })
	for reason, want := range map[string]string{"MAX_TOKENS": "length", "SAFETY": "content_filter", "RECITATION": "content_filter", "SPII": "content_filter", "MALFORMED_FUNCTION_CALL": "other", "LANGUAGE": "other"} {
		f(reason, hi+"\n"+`{"candidates":[{"finishReason":"`+reason+`"}]}`, func(r *reply) { good(r); r.Finish = want })
	}
	f("a prompt that was refused", `{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":9}}`, func(r *reply) { r.Finish, r.Usage.Prompt = "content_filter", 9 })
	f("all thought", `{"candidates":[{"content":{"parts":[]},"finishReason":"MAX_TOKENS"}],"usageMetadata":{"promptTokenCount":9,"thoughtsTokenCount":64}}`,
		func(r *reply) { r.Finish, r.Usage = "length", Usage{9, Unknown, 64, 64} })
	f("arguments in pieces", `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","willContinue":true}}]}}],"usageMetadata":{"trafficType":"ON_DEMAND"}}`+"\n"+
		`{"candidates":[{"content":{"parts":[{"functionCall":{"partialArgs":[{"jsonPath":"$.a","stringValue":"x","willContinue":true}],"willContinue":true}}]}}]}`+"\n"+
		`{"candidates":[{"content":{"parts":[{"functionCall":{"partialArgs":[{"jsonPath":"$.a","stringValue":""},{"jsonPath":"$.b","numberValue":7},{"jsonPath":"$.c","boolValue":false},null,7],"willContinue":true}}]}}]}`+"\n"+
		`{"candidates":[{"content":{"parts":[{"functionCall":{}}]}}]}`+"\n"+end,
		func(r *reply) { good(r); r.Text, r.Tool, r.Tokens, r.Visible = "", "fx7false", 3, 3 })
	f("code that the server runs", `{"candidates":[{"content":{"parts":[{"executableCode":{"language":"PYTHON","code":"1+1"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"2"}}]}}]}`+"\n"+end,
		func(r *reply) { good(r); r.Text, r.Tool = "", "1+1" })
	f("counts that the last chunk leaves out", `{"candidates":[{"content":{"parts":[{"text":"hi"}]}}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":3,"thoughtsTokenCount":64,"totalTokenCount":76}}`+"\n"+
		`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"totalTokenCount":76}}`,
		func(r *reply) { good(r); r.Counts, r.Usage = []int{3}, Usage{9, Unknown, 67, 64} })
	f("counts of the thoughts that the last chunk leaves out", `{"candidates":[{"content":{"parts":[{"text":"hm","thought":true}]}}],"usageMetadata":{"promptTokenCount":9,"thoughtsTokenCount":64}}`+"\n"+hi+"\n"+
		`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":3}}`,
		func(r *reply) {
			good(r)
			r.Reasoning, r.Tokens, r.Summaries, r.Usage = "hm", 2, 1, Usage{9, Unknown, 67, 64}
		})
	f("chunks without parts that count up", `{"candidates":[{"content":{"parts":[{"text":"hi"}]}}],"usageMetadata":{"candidatesTokenCount":3,"thoughtsTokenCount":64}}`+"\n"+
		`{"candidates":[{"content":{"role":"model"}}],"usageMetadata":{"candidatesTokenCount":5,"thoughtsTokenCount":64}}`+"\n"+end,
		func(r *reply) { good(r); r.Counts, r.Usage = []int{3, 5}, Usage{Unknown, Unknown, 69, 64} })
	f("candidates with the thoughts in them, by the total", hi+"\n"+`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":67,"thoughtsTokenCount":64,"totalTokenCount":76}}`,
		func(r *reply) { good(r); r.Usage = Usage{9, Unknown, 67, 64} })
	f("tokens of tools in the total", hi+"\n"+`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":147,"candidatesTokenCount":108,"thoughtsTokenCount":168,"toolUsePromptTokenCount":360,"totalTokenCount":783}}`,
		func(r *reply) { good(r); r.Usage = Usage{147, Unknown, 276, 168} })
	f("no thoughts", hi+"\n"+`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":3,"totalTokenCount":12}}`,
		func(r *reply) { good(r); r.Usage = Usage{9, Unknown, 3, Unknown} })
	f("text that is not counted yet", `{"candidates":[{"content":{"parts":[{"text":"hi"}]}}],"usageMetadata":{"promptTokenCount":9,"thoughtsTokenCount":64}}`+"\n"+
		`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":3,"thoughtsTokenCount":64}}`,
		func(r *reply) { good(r); r.Usage = Usage{9, Unknown, 67, 64} })
	f("an answer that is never counted", `{"candidates":[{"content":{"parts":[{"text":"hm","thought":true}]}}],"usageMetadata":{"promptTokenCount":9,"thoughtsTokenCount":60,"totalTokenCount":69}}`+"\n"+hi+"\n"+
		`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"thoughtsTokenCount":64,"totalTokenCount":73}}`,
		func(r *reply) {
			good(r)
			r.Reasoning, r.Tokens, r.Summaries, r.Usage = "hm", 2, 1, Usage{9, Unknown, Unknown, 64}
		})
	f("absurd usage", hi+"\n"+`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":-1,"candidatesTokenCount":100000000,"thoughtsTokenCount":1,"cachedContentTokenCount":"x"}}`,
		func(r *reply) { good(r); r.Usage.Reasoning = 1 })
	quota := ServerError{Status: 429, Type: "RESOURCE_EXHAUSTED", Message: "slow down"}
	f("error", hi+"\n"+`{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED"}}`, func(r *reply) { good(r); r.Finish, r.Err = "", quota })
	f("frames that are not of the protocol", "7\n[]\n<html>\n"+hi+"\n"+end, func(r *reply) { good(r); r.Broken = true })

	// Without data: lines, or in a list, where the stream did not begin.
	for _, body := range []string{
		`{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED"}}`,
		"[{\n  \"error\": {\n    \"code\": 429,\n    \"message\": \"slow down\",\n    \"status\": \"RESOURCE_EXHAUSTED\"\n  }\n}\n]",
	} {
		if d := cmp.Diff(&quota, ParseError([]byte(body))); d != "" {
			t.Errorf("%s (-want +got):\n%s", body, d)
		}
	}
}

func FuzzGemini(f *testing.F) { fuzzReply(f, "gemini", "composed_gemini") }
