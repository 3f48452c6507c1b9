package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// unbounded lists what reads from others without limits of its own, or makes what does, by
// the packages where it is: internal/foreign alone may use it.
func unbounded() map[string][]string {
	return map[string][]string{
		"net/http": {
			"Client", "Transport", "DefaultClient", "DefaultTransport", "Get", "Head", "Post", "PostForm", "ReadResponse", "NewClientConn",
		},
		"net":                                {"Dial", "DialTimeout", "DialTCP", "DialUDP", "DialUnix", "Dialer"},
		"crypto/tls":                         {"Dial", "DialWithDialer", "Dialer"},
		"io":                                 {"ReadAll"},
		"io/ioutil":                          {"ReadAll"},
		"compress/gzip":                      {"NewReader"},
		"compress/zlib":                      {"NewReader"},
		"compress/flate":                     {"NewReader"},
		"encoding/json":                      {"NewDecoder"},
		"encoding/xml":                       {"NewDecoder"},
		"gopkg.in/yaml.v3":                   {"NewDecoder"},
		"github.com/klauspost/compress/gzip": {"NewReader"},
		"github.com/klauspost/compress/zstd": {"NewReader"},
		"github.com/prometheus/common/config": {
			"NewClientFromConfig", "NewRoundTripperFromConfig", "NewRoundTripperFromConfigWithContext", "NewOAuth2RoundTripper", "NewTLSRoundTripper",
		},
		"golang.org/x/oauth2":                  {"NewClient"},
		"google.golang.org/grpc":               {"NewClient", "Dial", "DialContext"},
		"golang.org/x/net/http2":               {"Transport"},
		"cloud.google.com/go/compute/metadata": {"Get", "GetWithContext", "OnGCE", "OnGCEWithContext", "ProjectID"},
		"golang.org/x/oauth2/google":           {"FindDefaultCredentials", "DefaultTokenSource", "DefaultClient", "ComputeTokenSource"},
	}
}

// bounded lists the exceptions, each with what bounds it.
func bounded() map[string]string {
	return map[string]string{
		"gpu/pods/kubelet.go net.Dialer":           "the kubelet's socket; gRPC is given limits of head and message",
		"gpu/pods/kubelet.go grpc.NewClient":       "the same",
		"gpu/processes.go io.ReadAll":              "a file of /proc, through a LimitReader",
		"prober/conn.go net.Dialer":                "the connections of probes, which foreign.Dial opens: streams have limits of their own in prober/stream",
		"prober/cloudauth/cloudauth.go io.ReadAll": "the body of our own request",
		"internal/web/api.go gzip.NewReader":       "a page that the exporter has compressed",
		"internal/web/metrics.go gzip.NewReader":   "a page that the exporter has compressed",
		"internal/web/mcp.go io.ReadAll":           "a request to the listener, through http.MaxBytesReader",
		"internal/web/mute.go json.NewDecoder":     "a request to the listener, through http.MaxBytesReader",
		"internal/store/file.go zstd.NewReader":    "a file of the state, with limits of what it reads and of memory",
		"internal/simulator/ *":                    "the simulated server, which has no part in monitoring",
		"internal/testlab/ *":                      "for tests only",
	}
}

// TestForeignIsReadInOnePlace walks the code for what reads from others.
func TestForeignIsReadInOnePlace(t *testing.T) {
	used := map[string]bool{}
	for _, name := range programFiles(t) {
		if strings.HasPrefix(name, "internal/foreign/") {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, filepath.Join("..", name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for at, what := range readersIn(file) {
			exception := name + " " + what
			if dir := path.Dir(name) + "/ *"; bounded()[dir] != "" {
				exception = dir
			}
			if used[exception] = true; bounded()[exception] == "" {
				t.Errorf("%s: %s reads from others outside of internal/foreign, or needs its reason in the list of this test", fset.Position(at), what)
			}
		}
	}
	for _, exception := range slices.Sorted(maps.Keys(bounded())) {
		if !used[exception] {
			t.Errorf("the exception %q is for nothing", exception)
		}
	}
}

// readersIn returns the uses of what unbounded lists by their places. A decoder of what is
// in memory is none.
func readersIn(file *ast.File) map[token.Pos]string {
	names := map[string][]string{} // by the name of the package in the file
	for _, spec := range file.Imports {
		target, _ := strconv.Unquote(spec.Path.Value)
		name := strings.TrimSuffix(path.Base(target), ".v3")
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = unbounded()[target]
	}
	found := map[token.Pos]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 1 && isInMemory(call.Args[0]) {
			if s, ok := call.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "NewDecoder" {
				return false
			}
		}
		if _, ok := n.(*ast.StarExpr); ok { // the type of what is made elsewhere
			return false
		}
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if p, ok := s.X.(*ast.Ident); ok && slices.Contains(names[p.Name], s.Sel.Name) {
			found[s.Pos()] = p.Name + "." + s.Sel.Name
		}
		return true
	})
	return found
}

// isInMemory reports whether an expression is a reader of a text in memory.
func isInMemory(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != "NewReader" {
		return false
	}
	p, ok := s.X.(*ast.Ident)
	return ok && (p.Name == "bytes" || p.Name == "strings")
}
