package tracing

import (
	"strings"

	"github.com/inference-exporter/inference_exporter/internal/result"

	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/inference-exporter/inference_exporter/prober/api"
)

// isGeneration tells whether the probe asked for text. Until the protocol is
// found out, a probe counts as one that does.
func isGeneration(r *result.Result) bool {
	return r.Kind == api.Generation || r.Kind == ""
}

// operationOf returns gen_ai.operation.name. Ranking has no name in the
// conventions, which allow one of our own then.
func operationOf(r *result.Result) string {
	switch r.Kind {
	case api.Embedding:
		return semconv.GenAIOperationNameEmbeddings.Value.AsString()
	case api.Rerank:
		return "rerank"
	}
	switch r.API {
	case "openai-completions", "ollama-generate", "tgi", "sglang", "llamacpp", "triton":
		return semconv.GenAIOperationNameTextCompletion.Value.AsString()
	case "gemini":
		return semconv.GenAIOperationNameGenerateContent.Value.AsString()
	}
	return semconv.GenAIOperationNameChat.Value.AsString()
}

// providerOf returns gen_ai.provider.name of a hosted service by its host name;
// "" where it tells nothing, as with a server of one's own.
func providerOf(host string) string {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	switch host {
	case "api.openai.com":
		return semconv.GenAIProviderNameOpenAI.Value.AsString()
	case "api.anthropic.com":
		return semconv.GenAIProviderNameAnthropic.Value.AsString()
	case "generativelanguage.googleapis.com":
		return semconv.GenAIProviderNameGCPGemini.Value.AsString()
	case "api.cohere.com", "api.cohere.ai":
		return semconv.GenAIProviderNameCohere.Value.AsString()
	case "api.groq.com":
		return semconv.GenAIProviderNameGroq.Value.AsString()
	case "api.deepseek.com":
		return semconv.GenAIProviderNameDeepseek.Value.AsString()
	case "api.mistral.ai":
		return semconv.GenAIProviderNameMistralAI.Value.AsString()
	case "api.perplexity.ai":
		return semconv.GenAIProviderNamePerplexity.Value.AsString()
	case "api.x.ai":
		return semconv.GenAIProviderNameXAI.Value.AsString()
	}
	switch {
	case strings.HasSuffix(host, ".openai.azure.com"):
		return semconv.GenAIProviderNameAzureAIOpenAI.Value.AsString()
	case host == "aiplatform.googleapis.com", strings.HasSuffix(host, "-aiplatform.googleapis.com"):
		return semconv.GenAIProviderNameGCPVertexAI.Value.AsString()
	case strings.HasPrefix(host, "bedrock-runtime.") && strings.HasSuffix(host, ".amazonaws.com"):
		return semconv.GenAIProviderNameAWSBedrock.Value.AsString()
	}
	return ""
}
