package api

import "testing"

// The texts are those of public bug reports.
func TestRejectedParameter(t *testing.T) {
	f := func(status int, body, want string) {
		t.Helper()
		e := ParseHTTPError(status, []byte(body))
		if got := e.RejectedParameter(); got != want {
			t.Errorf("%d %s: %q, want %q; %+v", status, body, got, want, e)
		}
	}
	// Told in a field.
	f(400, `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}}`, "max_tokens")
	f(400, `{"error":{"message":"no","param":"stream_options.include_usage"}}`, "stream_options.include_usage")
	f(422, `{"object":"Error","detail":[{"type":"extra_forbidden","loc":["body","ignore_eos"],"msg":"Extra inputs are not permitted","input":true}],"type":"invalid_request_error","code":3001}`, "ignore_eos")
	f(422, `{"detail":[{"loc":["body","stream_options",0,"include_usage"],"msg":"no"}]}`, "stream_options.include_usage")
	// Told in the message.
	message := func(text, want string) {
		t.Helper()
		e := ServerError{Status: 400, Message: text}
		if got := e.RejectedParameter(); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	message("Unsupported parameter: 'max_tokens' is not supported with this model.", "max_tokens")
	message("Unsupported parameter: max_output_tokens", "max_output_tokens")
	message("Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.", "temperature")
	message("Unrecognized request argument supplied: min_tokens", "min_tokens")
	message("litellm.BadRequestError: OpenAIException - Unrecognized request arguments supplied: ignore_eos, min_tokens", "ignore_eos")
	message("Unknown parameter: 'ignore_eos'.", "ignore_eos")
	message("[{'type': 'extra_forbidden', 'loc': ('body', 'max_completion_tokens'), 'msg': 'Extra inputs are not permitted', 'input': 800}]", "max_completion_tokens")
	message(`{"detail":[{"type":"extra_forbidden","loc":["body","seed"],"msg":"Extra inputs are not permitted","input":0.0}]}`, "seed")
	message("ignore_eos: Extra inputs are not permitted", "ignore_eos")
	message("`temperature` is deprecated for this model.", "temperature")
	message("property 'stream_options' is unsupported, did you mean 'stream'?", "stream_options")
	message("litellm.UnsupportedParamsError: openai does not support parameters: ['ignore_eos'], for model=gpt-5", "ignore_eos")
	message("litellm.UnsupportedParamsError: gpt-5-nano doesn't support temperature=0.1 while reasoning is active.", "temperature")
	message("Argument not supported on this model: frequencyPenalty", "frequencyPenalty")
	message("unknown field: parameter 'ignore_eos' is not a valid field", "ignore_eos")
	message("Malformed input request: #: extraneous key [ignore_eos] is not permitted, please reformat your input and try again.", "ignore_eos")
	message(`Invalid JSON payload received. Unknown name "ignoreEos" at 'generation_config': Cannot find field.`, "ignoreEos")
	message(`json: unknown field "ignore_eos"`, "ignore_eos")
	// Nothing that could be left out.
	message("", "")
	message("Internal error", "")
	message("This model's maximum context length is 8192 tokens.", "")
	message("messages.0.content.1.text: Extra inputs are not permitted", "")
	f(400, `{"error":{"message":"too long","param":"messages","code":"context_length_exceeded"}}`, "")
	f(400, `{"error":{"message":"too long","param":"messages[1].content"}}`, "")
	// What gateways put into the place of a name.
	f(400, `{"error":{"message":"upstream","param":"400"}}`, "")
	f(400, `{"error":{"message":"upstream","param":"not a name"}}`, "")
	f(400, `{"error":{"message":"Unknown parameter: 'seed'.","param":""}}`, "seed")
	// Only a request that was refused as such.
	f(404, `{"error":{"message":"no model","param":"temperature"}}`, "")
	f(500, `{"error":{"message":"Unknown parameter: 'seed'."}}`, "")
}

func FuzzRejectedParameter(f *testing.F) {
	for _, s := range []string{"", "Unsupported parameter: 'max_tokens'", "a.b.c: Extra inputs are not permitted", "`x` is deprecated", "\xff"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, param, message string) {
		e := ServerError{Status: 400, Param: param, Message: message}
		if got := e.RejectedParameter(); got != "" && !isParameter(got) {
			t.Fatalf("%q, %q: %q is no name", param, message, got)
		}
	})
}
