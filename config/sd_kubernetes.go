//go:build kubernetes_sd

package config

import _ "github.com/prometheus/prometheus/discovery/kubernetes" // the key kubernetes_sd_configs
