package api

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	modelsPath      = "/models"
	chatPath        = "/chat/completions"
	completionsPath = "/completions"
	responsesPath   = "/responses"
	messagesPath    = "/messages"
	embeddingsPath  = "/embeddings"

	// deployments is where Azure has a path without a version for each model.
	deployments = "/openai/deployments/"
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
	root := rootOf(base)
	azure := strings.Index(root, deployments)
	versioned := []string{modelsPath, chatPath, completionsPath, responsesPath, messagesPath, embeddingsPath}
	if known := longestSuffix(root, versioned); known != "" {
		root = strings.TrimSuffix(root, known)
	} else if azure < 0 && !hasVersion(root) {
		root += "/v1"
	}
	if azure >= 0 && path == modelsPath { // Azure lists models beside the deployments
		root = root[:azure] + "/openai"
	}
	return withPath(base, root+path)
}

// fixed returns the URL of a path that has no version of its own choice. The
// base may be a server, a server with a prefix, or end in path or in one of
// known. A query stays.
func fixed(base *url.URL, path string, known ...string) *url.URL {
	root := rootOf(base)
	root = strings.TrimSuffix(root, longestSuffix(root, append(known, path)))
	return withPath(base, root+path)
}

// rootOf returns the escaped path of an URL without a slash at its end.
func rootOf(u *url.URL) string { return strings.TrimRight(u.EscapedPath(), "/") }

// withPath returns base with another path, given with valid escapes, and
// without its fragment.
func withPath(base *url.URL, escaped string) *url.URL {
	u := *base
	u.Fragment, u.RawFragment = "", ""
	u.RawPath = escaped
	u.Path, _ = url.PathUnescape(escaped)
	return &u
}

// longestSuffix returns the longest of paths that root ends in; "" is none.
func longestSuffix(root string, paths []string) string {
	longest := ""
	for _, path := range paths {
		if strings.HasSuffix(root, path) && len(path) > len(longest) {
			longest = path
		}
	}
	return longest
}

// hasVersion reports whether a segment of the path is a version.
func hasVersion(path string) bool { return slices.ContainsFunc(strings.Split(path, "/"), IsVersion) }

// IsVersion reports whether a segment of a path is a version: v1, v4, v1beta.
func IsVersion(segment string) bool {
	number, ok := strings.CutPrefix(segment, "v")
	number = strings.TrimSuffix(strings.TrimSuffix(number, "alpha"), "beta")
	_, err := strconv.ParseUint(number, 10, 8)
	return ok && err == nil
}
