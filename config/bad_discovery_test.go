package config

// badDiscoveries goes on with badFiles: service discovery.
func badDiscoveries() map[string][]string {
	return map[string][]string{
		"discovery-keys": {
			`:2: discovery[0].name: each endpoint has its own: set the label __endpoint__ by relabel_configs`,
			`:3: discovery[0].url: each endpoint has its own: it is made of __scheme__, __address__ and __path__, or set the label __url__ by relabel_configs`,
			`:5: discovery[1].file_sd_config: unknown key "file_sd_config"; known here: allow, api, budget, consul_sd_configs, dns_sd_configs, file_sd_configs, hardware, http, http_sd_configs, kubernetes_sd_configs, labels, model, modules, name, price, relabel_configs, request, servers, sigv4, slo, static_configs, url`,
			`:5: discovery[1]: no source of targets; want at least one of static_configs, file_sd_configs, http_sd_configs, dns_sd_configs, kubernetes_sd_configs, consul_sd_configs`,
			`:6: discovery[2]: no source of targets; want at least one of static_configs, file_sd_configs, http_sd_configs, dns_sd_configs, kubernetes_sd_configs, consul_sd_configs`,
			`:7: discovery[3]: no source of targets; want at least one of static_configs, file_sd_configs, http_sd_configs, dns_sd_configs, kubernetes_sd_configs, consul_sd_configs`,
			`:8: discovery[4]: no source of targets; want at least one of static_configs, file_sd_configs, http_sd_configs, dns_sd_configs, kubernetes_sd_configs, consul_sd_configs`,
		},
		"discovery-template": {
			`:3: discovery[0].modules[0]: unknown module "fast"; known: agent, batch, code-completion, embedding, interactive, long-context, rag`,
			`:4: discovery[0].api: want openai-chat, openai-completions, openai-responses, anthropic, gemini, ollama, ollama-generate, tgi, sglang, llamacpp, triton, cohere, bedrock, openai-embeddings, tei, ollama-embed, cohere-embed or rerank, got "soap"`,
			`:5: discovery[0].labels.model: label name "model" is reserved`,
			`:6: discovery[0].price.gpus: want 1 to 1024, got 0`,
			`:6: discovery[0].price: no price above 0; want at least one of gpu_hour_usd, input_usd and output_usd`,
		},
		"discovery-sources": {
			`:2: discovery[0].static_configs: want a list, got a mapping`,
			`:5: discovery[1].static_configs[0].label: unknown key "label"`,
			`:6: discovery[1].static_configs[1]: want a mapping, got a plain value`,
			`:7: discovery[1].static_configs[2]: want a mapping, got nothing`,
			`:9: discovery[2].file_sd_configs[0]: path name "targets.txt" is not valid for file discovery`,
			`:10: discovery[2].file_sd_configs[1].filez: unknown key "filez"`,
			`:11: discovery[2].file_sd_configs[2]: want a list, got a plain value`,
			`:13: discovery[2].file_sd_configs[3].refresh_interval: want a duration above 0`,
			`:14: discovery[2].file_sd_configs[4]: not a valid duration string: "soon"`,
			`:17: discovery[2].file_sd_configs[5].files: duplicate key, the first is on line 16`,
			`:19: discovery[3].http_sd_configs[0].url: a user or password in the URL; use basic_auth, authorization or http_headers`,
			`:20: discovery[3].http_sd_configs[1]: URL scheme must be 'http' or 'https'`,
			`:22: discovery[3].http_sd_configs[2].authorization: unknown key`,
			`:23: discovery[3].http_sd_configs[3]: want another form, got a list`,
			`:26: discovery[4].dns_sd_configs[0]: a port is required in DNS-SD configs for all record types except SRV`,
			`:28: discovery[4].dns_sd_configs[1]: want a whole number, got a plain value`,
		},
		"discovery-relabel": {
			`:4: discovery[0].relabel_configs[0]: unknown relabel action "guess"`,
			":5: discovery[0].relabel_configs[1]: error parsing regexp: missing closing ): `^(?s:()$`",
			`:6: discovery[0].relabel_configs[2].source_label: unknown key "source_label"`,
			`:7: discovery[0].relabel_configs[3]: want a list, got a plain value`,
			`:8: discovery[0].relabel_configs[4]: relabel configuration for hashmod requires non-zero modulus`,
			`:10: discovery[0].relabel_configs[5]: want a mapping, got a plain value`,
		},
		"discovery-allow": {
			`:2: discovery[0].allow: missing beside the credentials under http, which would go to whatever is discovered: list the hosts that may have them`,
			`:6: discovery[1].allow: missing beside the credentials under servers.http, which would go to whatever is discovered: list the hosts that may have them`,
			`:7: discovery[2].allow: missing beside the credentials under sigv4, which would go to whatever is discovered: list the hosts that may have them`,
			`:11: discovery[3].allow[1]: want a host like vllm.internal, *.internal or 10.0.0.7:8000, or a network like 10.0.0.0/8, got "http://h"`,
			`:11: discovery[3].allow[2]: want a host like vllm.internal, *.internal or 10.0.0.7:8000, or a network like 10.0.0.0/8, got "10.0.0.0/33"`,
			`:11: discovery[3].allow[3]: want a host like vllm.internal, *.internal or 10.0.0.7:8000, or a network like 10.0.0.0/8, got "*"`,
		},
	}
}
