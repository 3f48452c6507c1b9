//go:build !mcp

package web

import (
	"errors"
	"net/http"
)

// newMCPHandler refuses: the library would make the program larger for all.
func newMCPHandler(*Options, *probeHandler) (http.Handler, error) {
	return nil, errors.New("--web.enable-mcp: this build has no MCP; the container image and the releases have it; build with -tags mcp")
}
