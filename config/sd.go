package config

import (
	// These add the keys file_sd_configs, http_sd_configs and dns_sd_configs to
	// what promdiscovery.Configs decodes; static_configs is always there.
	_ "github.com/prometheus/prometheus/discovery/dns"
	_ "github.com/prometheus/prometheus/discovery/file"
	_ "github.com/prometheus/prometheus/discovery/http"
)
