package config

import _ "embed"

// Schema is the JSON schema of the configuration (2020-12), for editors.
//
//go:embed schema.json
var Schema string

// SchemaURL is where the schema of the newest release is.
const SchemaURL = "https://raw.githubusercontent.com/inference-exporter/inference_exporter/main/config/schema.json"
