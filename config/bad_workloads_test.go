package config

import "strings"

// badWorkloads goes on with badFiles: what to ask, and what it may cost.
func badWorkloads() map[string][]string {
	const (
		noLength   = `: want a number of tokens, a list of them, or a mapping of them to weights, got `
		noKey      = `: want a plain number of tokens as the key, got `
		again      = `, or leave the key out: the same text is sent again`
		nothing    = `: expects nothing; want at least one of equals, matches, json_schema, min_length, max_length, language and finish_reason`
		noMoney    = `: has no effect without a price of tokens; set price.input_usd and price.output_usd`
		noPrice    = `: no price above 0; want at least one of gpu_hour_usd, input_usd and output_usd`
		unchecked  = `: needs expect, prompts_file or questions: no other answer is checked`
		changing   = `: needs prompt or questions: other answers differ each time`
		cutAnother = `: needs a single output_tokens: answers of other lengths differ`
	)
	return map[string][]string{
		"slo-uncounted": {
			`:2: modules.burst.slo.tpot: has no effect with concurrency: bursts are compared with ttft alone`,
			`:2: modules.burst.slo.e2e: has no effect with concurrency: bursts are compared with ttft alone`,
			`:2: modules.burst.slo.fluidity: has no effect with concurrency: bursts are compared with ttft alone`,
			`:2: modules.burst.slo.count_waiting: has no effect with concurrency: bursts are compared with ttft alone`,
			`:3: modules.one.slo.tpot: has no effect with output_tokens: 1, as the first token has no TPOT`,
			`:3: modules.one.slo.fluidity: has no effect with output_tokens: 1, as the first token has no TPOT`,
			`:4: modules.ref.slo.ttft: has no effect with reference_logprob, which asks for no answer`,
			`:4: modules.ref.slo.tpot: has no effect with reference_logprob, which asks for no answer`,
			`:4: modules.ref.slo.fluidity: has no effect with reference_logprob, which asks for no answer`,
			`:4: modules.ref.slo.count_waiting: has no effect with reference_logprob, which asks for no answer`,
			`:7: modules.bare.slo.objective: has no effect with concurrency: bursts are compared with ttft alone`,
			`:11: endpoints[0].slo.e2e: no module of the endpoint counts it: it has no effect with concurrency: bursts are compared with ttft alone`,
			`:14: endpoints[1].slo.ttft: no module of the endpoint counts it: it has no effect with reference_logprob, which asks for no answer`,
			`:14: endpoints[1].slo.tpot: no module of the endpoint counts it: it has no effect with reference_logprob, which asks for no answer`,
			`:21: endpoints[4].slo.objective: no module of the endpoint counts it: it has no effect with concurrency: bursts are compared with ttft alone`,
		},
		"lengths": {
			`:3: modules.a.input_tokens: no length; want at least one, or leave the key out`,
			`:4: modules.a.output_tokens: no length; want at least one, or leave the key out`,
			`:6: modules.b.input_tokens[3]` + noLength + `"x"`,
			`:6: modules.b.input_tokens[4]` + noLength + `"~"`,
			`:6: modules.b.input_tokens[1]: 1000 is listed twice`,
			`:6: modules.b.input_tokens[2]: want 1 to 2000000, got 0`,
			`:7: modules.b.output_tokens: 17 lengths, more than 16`,
			`:9: modules.c.input_tokens.7: want a finite number, got ".inf"`,
			`:9: modules.c.input_tokens.8: want a finite number, got "heavy"`,
			`:9: modules.c.input_tokens.010` + noKey + `"010"`,
			`:9: modules.c.input_tokens["+3"]` + noKey + `"+3"`,
			`:9: modules.c.input_tokens.many` + noKey + `"many"`,
			`:9: modules.c.input_tokens.0: want 1 to 2000000, got 0`,
			`:9: modules.c.input_tokens.5: want a weight above 0 and up to 1000, got 0`,
			`:9: modules.c.input_tokens.6: want a weight above 0 and up to 1000, got -1`,
			`:9: modules.c.input_tokens.9: want a weight above 0 and up to 1000, got 1001`,
			`:10: modules.c.output_tokens.5: duplicate key, the first is on line 10`,
			`:13: modules.d.output_tokens: 36 pairs of input_tokens and output_tokens, more than 32`,
			`:14: modules.e.input_tokens[0]` + noLength + `a list`,
			`:14: modules.e.output_tokens.1: want a finite number, got a list`,
		},
		"concurrency": {
			`:2: modules.a.concurrency: an empty list; leave the key out for one request`,
			`:3: modules.b.concurrency[0]: want 1 to 256, got 0`,
			`:3: modules.b.concurrency[2]: want 1 to 256, got 257`,
			`:4: modules.c.concurrency[2]: want rising numbers, got 4 after 4`,
			`:4: modules.c.concurrency[3]: want rising numbers, got 2 after 4`,
			`:5: modules.d.concurrency: 9 levels, more than 8`,
			`:8: modules.e.concurrency: excludes prefix: paired`,
			`:9: modules.f.concurrency: want a list, got a plain value`,
			`:10: modules.g.concurrency[0]: want a whole number, got "many"`,
			`:11: modules.h.concurrency: excludes reference_logprob`,
			`:12: modules.i.concurrency: excludes connection: reuse`,
			`:13: modules.agent.concurrency: excludes prefix: paired`,
			`:14: modules.batch.concurrency: excludes reference_logprob`,
			`:16: modules.j.concurrency[1]: 6400000 prompt tokens at once, more than 4000000`,
			`:17: modules.k.input_tokens: several lengths beside concurrency; give each a module of its own`,
			`:18: modules.l.input_tokens: several lengths beside prefix: paired; give each a module of its own`,
		},
		"turns": {
			`:2: modules.a.turns: want 2 to 8, got 1`,
			`:3: modules.b.turns: want 2 to 8, got 9`,
			`:4: modules.c.turns: has no effect without prefix: conversation`,
			`:5: modules.d.concurrency: excludes prefix: conversation`,
			`:6: modules.e.input_tokens: several lengths beside prefix: conversation; give each a module of its own`,
			`:6: modules.e.output_tokens: several lengths beside prefix: conversation; give each a module of its own`,
			`:7: modules.f.prefix: want warm with prompt, or leave the key out: the same text is sent again`,
		},
		"asking": {
			`:4: modules.a.prompts_file: excludes prompt`,
			`:5: modules.a.questions: excludes prompt`,
			`:6: modules.a.reference_logprob: excludes prompt`,
			`:9: modules.b.input_tokens: has no effect with questions`,
			`:10: modules.b.batch_size: has no effect with questions`,
			`:11: modules.b.prefix: want warm with questions` + again,
			`:14: modules.c.output_tokens: has no effect with reference_logprob, which asks for no answer`,
			`:15: modules.c.prefix: want warm with reference_logprob` + again,
			`:16: modules.c.slo.ttft: has no effect with reference_logprob, which asks for no answer`,
			`:16: modules.c.slo.tpot: has no effect with reference_logprob, which asks for no answer`,
			`:18: modules.d.prompt: an empty text`,
			`:19: modules.d.prompts_file: an empty file name`,
			`:20: modules.e.prompt: want a text, got a list`,
			`:21: modules.f.input_tokens: has no effect with prompts_file`,
			`:22: modules.g.questions: want true or false, got "maybe"`,
			`:22: modules.g.reference_logprob: want true or false, got "1"`,
			`:23: modules.agent.prefix: want warm with prompt` + again,
		},
		"answers": {
			`:2: modules.a.expect: needs prompt; prompts_file and questions have answers of their own`,
			`:3: modules.b.expect: needs prompt; prompts_file and questions have answers of their own`,
			`:4: modules.c.log_answers` + unchecked,
			`:5: modules.d.log_answers` + unchecked,
			`:6: modules.e.fingerprint` + changing,
			`:7: modules.f.fingerprint` + changing,
			`:8: modules.g.log_answers` + unchecked,
			`:8: modules.g.fingerprint: has no effect with reference_logprob, which is watched without it`,
			`:9: modules.h.fingerprint` + cutAnother,
			`:10: modules.i.fingerprint` + cutAnother,
		},
		"expect": {
			`:2: modules.a.expect` + nothing,
			`:3: modules.b.expect: want a mapping, got a plain value`,
			`:7: modules.c.expect.equals: an empty text`,
			`:8: modules.c.expect.matches: want a regular expression: error parsing regexp: missing closing ): ` + "`(`",
			`:9: modules.c.expect.json_schema: an empty schema; want at least one keyword, like type: object`,
			`:10: modules.c.expect.min_length: want 1 to 65536, got 0`,
			`:11: modules.c.expect.max_length: want 1 to 65536, got 0`,
			`:12: modules.c.expect.language: want a known language as an ISO 639-1 code like en, got "english"`,
			`:13: modules.c.expect.finish_reason: an empty list; leave the key out`,
			`:18: modules.d.expect.matches: an empty text`,
			`:19: modules.d.expect.json_schema: want a mapping, got a list`,
			`:20: modules.d.expect.min_length: want 1 to 65536, got 65537`,
			`:21: modules.d.expect.max_length: want 1 to 65536, got -1`,
			`:22: modules.d.expect.language: want a known language as an ISO 639-1 code like en, got ""`,
			`:23: modules.d.expect.finish_reason[1]: want stop, length, tool_calls, content_filter, function_call, abort, error or other, got "end_turn"`,
			`:23: modules.d.expect.finish_reason[2]: "stop" is listed twice`,
			`:26: modules.e.expect.contains: unknown key "contains"; known here: equals, finish_reason, json_schema, language, matches, max_length, min_length`,
			`:26: modules.e.expect.max_length: 4 is less than min_length of 5`,
			`:34: modules.f.expect.json_schema.properties.answer.type: not a valid JSON schema: value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'`,
			`:35: modules.g.expect.json_schema: a reference to another document, which is never fetched`,
			`:36: modules.h.expect.json_schema: not a valid JSON schema: json-pointer in "#/$defs/x" not found`,
			`:37: modules.i.expect.json_schema.anyOf[1].pattern: not a valid JSON schema: '(' is not valid regex: error parsing regexp: missing closing ): ` + "`(`",
			`:38: modules.j.expect.json_schema.const: want a text, a finite number or a boolean; put a date in quotes`,
			`:39: modules.k.expect.matches: want a regular expression: error parsing regexp: missing closing ]: ` + "`[`",
			`:41: modules.m.expect` + nothing,
		},
		"prompts": badPrompts(),
		"price": {
			`:3: endpoints[0].price` + noPrice,
			`:5: endpoints[1].price` + noPrice,
			`:8: endpoints[2].price.gpu_hour_usd: want 0 to 1000000 US dollars, got -1`,
			`:9: endpoints[2].price.gpus: want 1 to 1024, got 0`,
			`:10: endpoints[2].price.input_usd: want a finite number, got ".inf"`,
			`:11: endpoints[2].price.cached_input_usd: want 0 to 1000000 US dollars, got 1.000001e+06`,
			`:12: endpoints[2].price.output_usd: want a finite number, got "much"`,
			`:14: endpoints[3].price.input_usd: missing, but required by cached_input_usd`,
			`:16: endpoints[4].price: want a mapping, got a plain value`,
			`:18: endpoints[5].price.gpu_usd: unknown key "gpu_usd"; known here: cached_input_usd, gpu_hour_usd, gpus, input_usd, output_usd`,
			`:18: endpoints[5].price` + noPrice,
			`:20: endpoints[6].price.gpus: want 1 to 1024, got 1025`,
		},
		"budget": {
			`:3: global.budget.tokens_per_hour: want a number of tokens above 0, got 0; for no limit leave the key out`,
			`:4: global.budget.usd_per_day: want a number of US dollars above 0, got -1; for no limit leave the key out`,
			`:7: endpoints[0].budget.usd_per_day` + noMoney,
			`:10: endpoints[1].budget.usd_per_day` + noMoney,
			`:12: endpoints[2].price.input_usd: want a finite number, got "x"`,
			`:13: endpoints[2].budget.tokens_per_hour: want a whole number, got "1.5"`,
			`:15: endpoints[3].budget.tokens_per_day: unknown key "tokens_per_day"; known here: tokens_per_hour, usd_per_day`,
			`:15: endpoints[3].budget.tokens_per_hour: want a number of tokens above 0, got -5; for no limit leave the key out`,
			`:15: endpoints[3].budget.usd_per_day: want a number of US dollars above 0, got 0; for no limit leave the key out`,
		},
		"sticky-header": {
			`:3: endpoints[0].request.sticky_header: not a valid name of a header`,
			`:5: endpoints[1].request.sticky_header: not a valid name of a header`,
			`:7: endpoints[2].request.sticky_header: setting header "Content-Length" is not allowed`,
			`:9: endpoints[3].request.replica_header: not a valid name of a header`,
		},
	}
}

// badPrompts are the mistakes in files with prompts, each with the line there.
func badPrompts() []string {
	const one, two, three = `:5: modules.wrong.prompts_file: $DIR/wrong.prompts.jsonl`, `:7: modules.messages.prompts_file: $DIR/wrong-messages.prompts.jsonl`, `:9: modules.many.prompts_file: $DIR/many.prompts.jsonl`
	all := []string{
		`:2: modules.missing.prompts_file: cannot read $DIR/missing.jsonl: no such file or directory`,
		`:3: modules.directory.prompts_file: cannot read $DIR: not a regular file`,
		one + `:2: not valid JSON; want one object in each line`,
		one + `:4: want an object`,
		one + `:5: prompt: want a text`,
		one + `:6: unknown key "prompts"; known here: prompt, messages, expected, weight`,
		one + `:7: prompt: duplicate key`,
		one + `:8: messages: excludes prompt`,
		one + `:9: weight: want a number above 0 and up to 1000`,
		one + `:10: weight: want a number above 0 and up to 1000`,
		one + `:11: expected: an empty text`,
		two + `:1: messages: want a list`,
		two + `:2: messages: want a message of the user at the end`,
		two + `:3: messages[0]: content: an empty text`,
		two + `:4: messages[0]: role: want system, user or assistant`,
		two + `:5: messages[0]: content: missing`,
		two + `:6: messages: want a message of the user at the end`,
		two + `:7: messages[1]: role: system may only be the first`,
		two + `:8: messages[0]: unknown key "name"; known here: role, content`,
		two + `:9: messages[0]: want an object`,
	}
	for line := range strings.SplitSeq("1 2 3 4 5 6 7 8 9 10", " ") { // of 11: enough are reported
		all = append(all, three+":"+line+": no prompt; want prompt or messages")
	}
	return append(all, `:11: modules.empty.prompts_file: $DIR/empty.prompts.jsonl:2: no prompts; want at least one`)
}
