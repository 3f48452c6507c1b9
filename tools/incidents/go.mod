// Two incidents with real processes and clocks, and how often they notify.
module github.com/inference-exporter/inference_exporter/tools/incidents

go 1.26.0
