package docs

import (
	"cmp"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
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
		"prober/conn.go net.Dialer":                "the connections of probes, which foreign.Dial opens: streams have limits of their own in prober/stream",
		"prober/cloudauth/cloudauth.go io.ReadAll": "the body of our own request",
		"internal/web/api.go gzip.NewReader":       "a page that the exporter has compressed",
		"internal/web/metrics.go gzip.NewReader":   "a page that the exporter has compressed",
		"internal/web/mcp.go io.ReadAll":           "a request to the listener, through http.MaxBytesReader",
		"internal/web/web.go json.NewDecoder":      "a request to the listener, through http.MaxBytesReader",
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
		for _, what := range readersIn(read(t, filepath.Join("..", name))) {
			exception := name + " " + what
			if dir := path.Dir(name) + "/ *"; bounded()[dir] != "" {
				exception = dir
			}
			if used[exception] = true; bounded()[exception] == "" {
				t.Errorf("%s: %s reads from others outside of internal/foreign, or needs its reason in the list of this test", name, what)
			}
		}
	}
	for _, exception := range slices.Sorted(maps.Keys(bounded())) {
		if !used[exception] {
			t.Errorf("the exception %q is for nothing", exception)
		}
	}
}

// readersIn returns the uses of what unbounded lists in the source of a file. A decoder of
// what is in memory is none, nor is the type of what is made elsewhere.
func readersIn(source string) []string {
	source = regexp.MustCompile(`(?m)//.*$`).ReplaceAllString(source, "")
	var found []string
	for target, names := range unbounded() {
		if !strings.Contains(source, `"`+target+`"`) {
			continue
		}
		imported := regexp.MustCompile(`(?m)^(?:import)?\s*(\w*) ?"` + regexp.QuoteMeta(target) + `"$`).FindStringSubmatch(source)
		if imported == nil {
			continue
		}
		name := cmp.Or(imported[1], strings.TrimSuffix(path.Base(target), ".v3"))
		use := regexp.MustCompile(`(.)\b` + name + `\.(` + strings.Join(names, "|") + `)\b(\((?:bytes|strings)\.NewReader\()?`)
		for _, u := range use.FindAllStringSubmatch(source, -1) {
			if u[1] != "*" && (u[2] != "NewDecoder" || u[3] == "") {
				found = append(found, name+"."+u[2])
			}
		}
	}
	return found
}
