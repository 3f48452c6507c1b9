//go:build !mcp

package web

import (
	"strings"
	"testing"
)

func TestMCPNeedsItsBuild(t *testing.T) {
	o := options("/metrics")
	o.MCP = true
	_, err := New(o)
	if err == nil || !strings.Contains(err.Error(), "build with -tags mcp") {
		t.Errorf("error %v", err)
	}
}
