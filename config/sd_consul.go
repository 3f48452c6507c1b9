//go:build consul_sd

package config

import _ "github.com/prometheus/prometheus/discovery/consul" // the key consul_sd_configs
