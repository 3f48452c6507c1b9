//go:build !mcp

package web

import (
	"strings"
	"testing"
)

func TestMCPNeedsItsBuild(t *testing.T) {
	_, err := New(Options{MetricsPath: "/metrics", MCP: true})
	if err == nil || !strings.Contains(err.Error(), "build with -tags mcp") {
		t.Errorf("error %v", err)
	}
}
