package api

import (
	"net/url"
	"strconv"
	"strings"
)

const (
	modelsPath      = "/models"
	chatPath        = "/chat/completions"
	completionsPath = "/completions"
)

// versioned returns a Protocol.URL for a path behind the version. The base may
// be a server ("http://h:8000"), a server with a prefix that ends in or holds a
// version ("…/v1", "…/openai/v1", "…/v1beta/openai"), or already the URL of a
// known protocol. Only a base without a version gets "/v1". A query stays.
func versioned(path string) func(*url.URL, string) *url.URL {
	return func(base *url.URL, _ string) *url.URL { return under(base, path) }
}

// openAIModels is GET /v1/models.
func openAIModels() *ModelList {
	return &ModelList{
		URL:   func(base *url.URL) *url.URL { return under(base, modelsPath) },
		Parse: ParseModels,
	}
}

// under replaces the path of a known protocol in base, or extends base.
func under(base *url.URL, path string) *url.URL {
	u := *base
	u.Fragment, u.RawFragment = "", ""
	root := strings.TrimRight(u.EscapedPath(), "/")
	if known := knownPath(root); known != "" {
		root = strings.TrimSuffix(root, known)
	} else if !hasVersion(root) {
		root += "/v1"
	}
	// The parts are valid escapes: root is of an URL, path is a constant.
	u.RawPath = root + path
	u.Path, _ = url.PathUnescape(u.RawPath)
	return &u
}

// versionedPaths are the paths of the protocols that stand behind a version.
func versionedPaths() []string {
	return []string{chatPath, completionsPath}
}

// knownPath returns the longest path of a protocol that root ends in; "" is
// none.
func knownPath(root string) string {
	longest := ""
	if strings.HasSuffix(root, modelsPath) {
		longest = modelsPath
	}
	for _, path := range versionedPaths() {
		if strings.HasSuffix(root, path) && len(path) > len(longest) {
			longest = path
		}
	}
	return longest
}

// hasVersion tells whether a segment of the path is a version: v1, v4, v1beta.
func hasVersion(path string) bool {
	for segment := range strings.SplitSeq(path, "/") {
		number, ok := strings.CutPrefix(segment, "v")
		number = strings.TrimSuffix(strings.TrimSuffix(number, "alpha"), "beta")
		if _, err := strconv.ParseUint(number, 10, 8); ok && err == nil {
			return true
		}
	}
	return false
}
