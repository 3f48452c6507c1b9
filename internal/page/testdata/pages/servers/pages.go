// Package pages has the metrics pages of engines that the simulator serves. A
// page was recorded, or composed from documented names where its first line
// says so; NAME.want.yml is what package page must read from it.
package servers

import "embed"

// FS holds the pages.
//
//go:embed dynamo-frontend.txt litellm.txt llamacpp.txt lmdeploy-0.16.txt nim.txt tei.txt tgi.txt triton-trtllm.txt trtllm-1.2.txt
var FS embed.FS
