package config

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// URL is a base URL: http or https, with a host, without user and fragment,
// and without a query but Azure's api-version.
type URL struct{ *url.URL }

// MarshalYAML renders the URL as text.
func (u URL) MarshalYAML() (any, error) {
	if u.URL == nil {
		return nil, nil
	}
	return u.String(), nil
}

// hostPort is the host with its port, unless it is the scheme's own.
func (u URL) hostPort() string {
	if u.URL == nil {
		return ""
	}
	if port := u.Port(); port == "" || port == schemePort(u.Scheme) {
		return strings.TrimSuffix(u.Host, ":"+port)
	}
	return u.Host
}

// schemePort is the port of a URL without one; "" for a scheme that is not ours.
func schemePort(scheme string) string {
	switch scheme {
	case "http":
		return "80"
	case "https":
		return "443"
	}
	return ""
}

// PageURL is the URL of a page: as URL, but the only query is `model=NAME`, which
// a router of several models needs. `autoload=false` beside it is accepted and left
// out: it goes along with every reading.
type PageURL struct{ *url.URL }

// MarshalYAML renders the URL as text.
func (u PageURL) MarshalYAML() (any, error) { return URL(u).MarshalYAML() }

// url returns what parse makes of a text; nil for no URL.
func (d *decoder) url(n *yaml.Node, p path, parse func(string) (*url.URL, error)) *url.URL {
	if n.Kind != yaml.ScalarNode {
		d.errorf(p, "%v, got %s", errWantURL, got(n))
		return nil
	}
	u, err := parse(n.Value)
	if err != nil {
		d.errorf(p, "%v", err)
	}
	return u
}

var errWantURL = errors.New("want a URL like http://host:8000")

func parseURL(s string) (*url.URL, error) {
	return parseAnyURL(s, isVersionQuery, "is not ?api-version=DATE, in the URL; for a key use http.authorization or a header")
}

func parsePageURL(s string) (*url.URL, error) {
	u, err := parseAnyURL(s, isModelQuery, "is not ?model=NAME, in the URL; for a key use servers.http")
	if err == nil {
		u.RawQuery = modelQuery(u.RawQuery)
	}
	return u, err
}

// parseAnyURL never repeats s in an error: it may hold a password or a key.
// badQuery says what is wrong with a query that is not the one for such a URL.
func parseAnyURL(s string, isQuery func(string) bool, badQuery string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, errWantURL
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("want a URL that begins with http:// or https://")
	case u.User != nil:
		return nil, errors.New("a user or password in the URL; use http.basic_auth or a header")
	case u.Hostname() == "":
		return nil, errors.New("a URL without a host")
	case u.ForceQuery || strings.Contains(s, "#") || !isQuery(u.RawQuery):
		return nil, errors.New("a fragment, or a query that " + badQuery)
	case !isPort(u):
		return nil, errors.New("a port that is not 1 to 65535")
	}
	return u, nil
}

func isPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && port > 0
}

// isVersionQuery tells whether a query is none, or the one that Azure's
// deployments need (api-version=2024-10-21). Any other may hold a key.
func isVersionQuery(query string) bool {
	version, ok := strings.CutPrefix(query, "api-version=")
	return query == "" || ok && isPlain(version)
}

// noAutoload asks a llama.cpp router not to load the model, as it does by default.
const noAutoload = "autoload=false"

// modelQuery returns a query without noAutoload beside the name of a model.
func modelQuery(query string) string {
	return strings.TrimSuffix(strings.TrimPrefix(query, noAutoload+"&"), "&"+noAutoload)
}

// isModelQuery reports whether a query is none, or the name of a model, alone or
// beside noAutoload.
func isModelQuery(query string) bool {
	query = modelQuery(query)
	escaped, ok := strings.CutPrefix(query, "model=")
	name, err := url.QueryUnescape(escaped)
	bad := name == "" || len(name) > maxModelBytes || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl)
	return query == "" || ok && err == nil && !bad && !strings.ContainsAny(escaped, "&;=")
}

// validateOpenURL refuses a user in a URL that others log: it belongs under the keys
// that are named. The URL may lack its scheme.
func (d *decoder) validateOpenURL(p path, s, instead string) {
	if s == "" {
		return // which is another mistake, or none
	}
	if !strings.Contains(s, "://") {
		s = "http://" + s
	}
	u, err := url.Parse(s)
	if err != nil {
		d.errorf(p, "%v", errWantURL)
		return
	}
	switch {
	case u.User != nil:
		d.errorf(p, "a user or password in the URL; use %s", instead)
	case u.Hostname() == "" || !isPort(u) || strings.Contains(s, "#"):
		d.errorf(p, "%v, without a fragment", errWantURL)
	}
}

// hideQuery returns a URL without the values in its query, which may be secrets.
func hideQuery(s string) string {
	base, query, ok := strings.Cut(s, "?")
	if !ok {
		return s
	}
	parts := strings.Split(query, "&")
	for i, part := range parts {
		if name, _, ok := strings.Cut(part, "="); ok {
			parts[i] = name + "=xxxxx"
		} else {
			parts[i] = "xxxxx"
		}
	}
	return base + "?" + strings.Join(parts, "&")
}
