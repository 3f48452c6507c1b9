// What a release needs beside goreleaser: bills of materials and notes. A
// module of its own, so that its dependencies never reach the exporter.
module github.com/inference-exporter/inference_exporter/tools/release

go 1.26.0

require (
	github.com/CycloneDX/cyclonedx-go v0.12.0
	github.com/google/go-cmp v0.7.0
	github.com/google/licensecheck v0.3.1
	github.com/in-toto/attestation v1.1.2
	github.com/package-url/packageurl-go v0.1.7
	google.golang.org/protobuf v1.36.12
	gopkg.in/yaml.v3 v3.0.1
)
