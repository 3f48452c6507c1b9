package simulator

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// litellmMetrics is the page of the LiteLLM proxy: a gateway, whose series are
// by key, team and user. What streams is of one key here, the rest of another.
func litellmMetrics(*Options) *metricsPage {
	seconds := []float64{
		.005, .00625, .0125, .025, .05, .1, .5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5, 8, 8.5, 9, 9.5, 10,
		15, 20, 25, 30, 60, 120, 180, 240, 300,
	}
	failed := (*view).requestsRefused
	return &metricsPage{
		path:   "/metrics",
		bounds: bounds{endToEnd: seconds, firstToken: seconds, meanToken: seconds},
		groups: []group{
			{scope: eachClass, labels: litellmKey, families: []family{
				counters("litellm_proxy_total_requests_metric_total", "Requests.", "status_code", litellmCodes),
				counter("litellm_proxy_failed_requests_metric_total", "Requests refused.", failed),
				counter("litellm_input_tokens_metric_total", "Prompt tokens of ended requests.", (*view).endedPrompt),
				counter("litellm_output_tokens_metric_total", "Tokens generated for ended requests.", (*view).endedGenerated),
				distribution("litellm_request_total_latency_metric", "Time of a request, seconds.", endToEnd),
				distribution("litellm_llm_api_latency_metric", "Time of the server behind, seconds.", endToEnd),
				distribution("litellm_deployment_latency_per_output_token", "Time per output token, seconds.", meanToken),
			}},
			{scope: streamed, labels: litellmKey, families: []family{
				distribution("litellm_llm_api_time_to_first_token_metric", "Time to the first token, seconds.", firstToken),
			}},
		},
	}
}

// streamed is the view of the requests whose reply streams, if any.
func streamed(replicas []*view) []*view {
	var views []*view
	for _, v := range eachClass(replicas) {
		if v.class == streaming {
			views = append(views, v)
		}
	}
	return views
}

func litellmKey(v *view) prometheus.Labels {
	l := prometheus.Labels{
		"requested_model": v.o.Model, "end_user": "None", "user": "user-batch", "team": "team-1", "team_alias": "research",
		"hashed_api_key": "88dc28d0f030c55ed4ab77ed8faf098196cb1c05df778539800c9f1243fe6b4b", "api_key_alias": "batch",
	}
	if v.class == streaming {
		l["user"], l["team"], l["team_alias"], l["api_key_alias"] = "user-chat", "team-2", "product", "chat"
		l["hashed_api_key"] = "3a7bd3e2360a3d29eea436fcfb7e44c735d117c42d1c1835420b6b9942dd4f1b"
	}
	return l
}

func litellmCodes(v *view) map[string]float64 {
	return happened(map[string]float64{
		strconv.Itoa(http.StatusOK):                 v.requestsEnded(),
		strconv.Itoa(http.StatusServiceUnavailable): v.requestsRefused(),
	})
}
