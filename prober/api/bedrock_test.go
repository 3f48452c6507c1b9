package api

import (
	"encoding/binary"
	"hash/crc32"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// awsMessage encodes one message of an AWS event stream. Headers are pairs of
// name and text.
func awsMessage(payload string, headers ...string) []byte {
	var h []byte
	for i := 0; i < len(headers); i += 2 {
		h = append(append(h, byte(len(headers[i]))), headers[i]...)
		h = binary.BigEndian.AppendUint16(append(h, 7), uint16(len(headers[i+1])))
		h = append(h, headers[i+1]...)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(h)+len(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(h)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, h...), payload...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// awsStream frames lines of an event's name and its payload.
func awsStream(lines string) []byte {
	var b []byte
	for line := range strings.Lines(lines) {
		name, payload, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		b = append(b, awsMessage(payload, ":event-type", name, ":content-type", "application/json", ":message-type", "event")...)
	}
	return b
}

// TestBedrockStreams decodes replies that are composed from the documentation
// of ConverseStream, with the padding "p" that the service adds.
func TestBedrockStreams(t *testing.T) {
	none := ServerTimes{-1, -1, -1}
	for file, want := range map[string]reply{
		"composed_bedrock_claude": {
			Reasoning: "The user wants words.", Text: "one two café 🙂", Tokens: 4, Visible: 2, Summaries: 2, Finish: "length", Done: true,
			Usage: Usage{Prompt: 9 + 1024, Cached: 1024, Output: 12, Reasoning: Unknown}, Server: none,
		},
		"composed_bedrock_tool": {
			Tool: `get_weather{"city": "Rome"}`, Tokens: 3, Visible: 3, Finish: "tool_calls", Done: true,
			Usage: Usage{Prompt: 400, Cached: Unknown, Output: 30, Reasoning: Unknown}, Server: none,
		},
	} {
		body := awsStream(string(readCapture(t, file)))
		t.Run(file, func(t *testing.T) { checkReads(t, "bedrock", body, want) })
	}
}

func TestBedrockOddStreams(t *testing.T) {
	const hi = `contentBlockDelta {"delta":{"text":"hi"}}` + "\n"
	const end = `messageStop {"stopReason":"end_turn"}` + "\n"
	exception := func(kind, payload string) string {
		return string(awsMessage(payload, ":exception-type", kind, ":content-type", "application/json", ":message-type", "exception"))
	}
	f := func(name, body string, want reply) {
		t.Helper()
		if d := cmp.Diff(want, decodeReply(t, "bedrock", strings.NewReader(body))); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	stream := func(lines string) string { return string(awsStream(lines)) }
	f("nothing", "", noReply())
	f("no metadata", stream(hi+end), plain(func(r *reply) { r.Done = false }))
	f("unknown events", stream("initial-response {}\n"+hi+"surprise {\"a\":[1]}\n"+end+"metadata {}\n"), good())
	f("no payload", stream("messageStart \n"+hi+end+"metadata {}\n"), good())
	f("nulls", stream(`contentBlockDelta {"delta":null}`+"\n"+`contentBlockDelta {"delta":{"text":null,"toolUse":null,"reasoningContent":null}}`+"\n"+
		`contentBlockStart {"start":null}`+"\n"+hi+`messageStop {"stopReason":"end_turn","additionalModelResponseFields":null}`+"\n"+`metadata {"usage":null,"metrics":null}`+"\n"), good())
	f("guardrail", stream(hi+`messageStop {"stopReason":"guardrail_intervened"}`+"\n"+"metadata {}\n"), plain(func(r *reply) { r.Finish = "content_filter" }))
	f("reasoning that is withheld", stream(`contentBlockDelta {"delta":{"reasoningContent":{"redactedContent":"AAAA"}}}`+"\n"+hi+end+"metadata {}\n"), good())
	f("cache written", stream(hi+end+`metadata {"usage":{"inputTokens":1,"outputTokens":1,"cacheReadInputTokens":0,"cacheWriteInputTokens":1000}}`+"\n"),
		plain(func(r *reply) { r.Usage = Usage{1001, 0, 1, Unknown} }))
	f("metadata first", stream(hi+`metadata {"usage":{"inputTokens":9,"outputTokens":1}}`+"\n"+end), plain(func(r *reply) { r.Usage = Usage{9, Unknown, 1, Unknown} }))
	f("metadata alone", stream(hi+"metadata {}\n"), plain(func(r *reply) { r.Finish, r.Done = "", false }))
	f("absurd usage", stream(hi+end+`metadata {"usage":{"inputTokens":1e8,"outputTokens":-1,"cacheReadInputTokens":1e8}}`+"\n"),
		plain(func(r *reply) { r.Usage = Usage{Unknown, 100_000_000, Unknown, Unknown} }))
	f("throttled", stream(hi)+exception("throttlingException", `{"message":"Too many requests"}`),
		with(func(r *reply) {
			r.Text, r.Tokens, r.Visible = "hi", 1, 1
			r.Err = ServerError{Status: 429, Type: "throttlingException", Message: "Too many requests"}
		}))
	f("model failed", exception("modelStreamErrorException", `{"message":"failed","originalStatusCode":500,"originalMessage":"out of memory"}`),
		with(func(r *reply) {
			r.Err = ServerError{Status: 424, Type: "modelStreamErrorException", Message: "failed"}
		}))
	f("exception without words", exception("internalServerException", ""),
		with(func(r *reply) {
			r.Err = ServerError{Status: 500, Type: "internalServerException", Message: "internalServerException"}
		}))
	f("error", string(awsMessage("", ":message-type", "error", ":error-code", "InternalFailure", ":error-message", "gone")),
		with(func(r *reply) { r.Err = ServerError{Type: "InternalFailure", Message: "gone"} }))
	f("error without anything", string(awsMessage("", ":message-type", "error")),
		with(func(r *reply) { r.Err = ServerError{Message: "error in the stream"} }))
	f("no JSON", stream("contentBlockDelta {{\n"), with(func(r *reply) { r.Broken = true }))
	f("no object", stream("contentBlockDelta [1]\n"), with(func(r *reply) { r.Broken = true }))
}

func TestBedrockURL(t *testing.T) {
	f := func(base, model, want string) {
		t.Helper()
		checkURL(t, "bedrock", func(u *url.URL) *url.URL { return bedrock().URL(u, model) }, base, want)
	}
	const host = "https://bedrock-runtime.us-east-1.amazonaws.com"
	f(host, "amazon.nova-lite-v1:0", host+"/model/amazon.nova-lite-v1%3A0/converse-stream")
	f(host+"/", "a", host+"/model/a/converse-stream")
	f("http://h/bedrock", "a b", "http://h/bedrock/model/a%20b/converse-stream")
	f(host, "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.a-v1:0",
		host+"/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Ainference-profile%2Fus.a-v1%3A0/converse-stream")
	f(host+"/model/x%3A0/converse-stream", "other", host+"/model/x%3A0/converse-stream")
}

func TestBedrockBody(t *testing.T) {
	checkBody(t, bedrock(), Params{Model: "m", Prompt: "a <b>", OutputTokens: 64},
		`{"messages":[{"role":"user","content":[{"text":"a <b>"}]}],"inferenceConfig":{"maxTokens":64}}`)
	if body, err := bedrock().Body(Params{Model: "m", Prompt: "a"}, new(Adjustment)); err == nil {
		t.Errorf("no cap on the answer: %s, want an error", body)
	}
}

func FuzzBedrock(f *testing.F) {
	for _, event := range []string{"", "contentBlockDelta", "metadata", "exception:throttlingException", "error:"} {
		for _, s := range []string{
			"", "{}", "null", "x", `{"delta":{"text":"a","reasoningContent":{"text":"b"},"toolUse":{"input":"c"}}}`, `{"start":{"toolUse":{"name":"n"}}}`,
			`{"stopReason":"end_turn"}`, `{"usage":{"inputTokens":1,"outputTokens":2,"cacheReadInputTokens":3,"cacheWriteInputTokens":4}}`,
			`{"usage":{"inputTokens":-1,"outputTokens":1e99,"cacheReadInputTokens":0.5}}`, `{"message":"m"}`,
		} {
			f.Add(event, []byte(s), []byte(s))
		}
	}
	fuzzDecoder(f, bedrock())
}

func BenchmarkBedrockDecode(b *testing.B) {
	event, data := []byte("contentBlockDelta"), []byte(`{"contentBlockIndex":0,"delta":{"text":" token"},"p":"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLM"}`)
	decoder := bedrock().NewDecoder()
	var d Delta
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if err := decoder.Decode(event, data, &d); err != nil {
			b.Fatal(err)
		}
	}
}
