//go:build mcp

package app

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// withPassword sends a user and the password with each request.
type withPassword struct{ user, password string }

func (p withPassword) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.SetBasicAuth(p.user, p.password)
	return (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
}

// askMCP returns what the tools answer; an error is of the connection.
func askMCP(ctx context.Context, address string, as withPassword, calls ...*mcp.CallToolParams) (texts []string, err error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: address + "/mcp", HTTPClient: &http.Client{Transport: as}}, nil)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	for _, c := range calls {
		answer, err := session.CallTool(ctx, c)
		if err != nil {
			return nil, err
		}
		texts = append(texts, answer.Content[0].(*mcp.TextContent).Text)
	}
	return texts, nil
}

// TestMCPOfTheProgram asks the running program for an endpoint that repeats its key: all
// tools answer whoever has the password, and none shows the key.
func TestMCPOfTheProgram(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(server.Close)
	file := writeFile(t, "exporter.yml", fmt.Sprintf("endpoints: [{name: e, url: %q, api: openai-chat, model: m, http: {authorization: {credentials: %q}}}]\n",
		server.URL+"/"+url.PathEscape("message")+"/plain", canary))
	// The hash of change-me, as in docs/security.md.
	web := writeFile(t, "web.yml", "basic_auth_users: {prometheus: $2a$10$MM4aQMu/ccmu51.P19X52eX.1WGFdxTCeMWmszHAbGncs3NCUhAza}\n")
	f := func(as withPassword, ok bool, args ...string) {
		t.Helper()
		p := start(t, append([]string{"--config.file=" + file, "--web.listen-address=127.0.0.1:0", "--no-collector.gpu", "--no-collector.server"}, args...)...)
		defer p.stop()
		named := map[string]any{"endpoint": "e"}
		texts, err := askMCP(t.Context(), p.base, as, &mcp.CallToolParams{Name: "probe", Arguments: map[string]any{"target": "e"}},
			&mcp.CallToolParams{Name: "fleet"}, &mcp.CallToolParams{Name: "endpoint", Arguments: named}, &mcp.CallToolParams{Name: "explain", Arguments: named})
		if (err == nil) != ok {
			t.Errorf("%q as %q: error %v", args, as.user, err)
		}
		for _, text := range texts {
			wantNoSecret(t, "a tool", text)
		}
		if ok && (!strings.Contains(texts[0], "wrong key") || !strings.Contains(texts[1], `"name":"e"`)) {
			t.Errorf("got %q", texts)
		}
	}
	f(withPassword{"prometheus", "change-me"}, true, "--web.enable-mcp", "--web.config.file="+web)
	f(withPassword{"prometheus", "wrong"}, false, "--web.enable-mcp", "--web.config.file="+web)
	f(withPassword{"prometheus", "change-me"}, false, "--web.config.file="+web)
}
