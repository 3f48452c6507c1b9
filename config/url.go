package config

import (
	"cmp"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"
)

// URL is a base URL: http or https, with a host, without user and fragment, and with no query but Azure's api-version.
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
	return strings.TrimSuffix(u.Host, ":"+schemePort(u.Scheme))
}

// schemePort is the port of a URL without one; "" for a scheme that is not ours.
func schemePort(scheme string) string { return map[string]string{"http": "80", "https": "443"}[scheme] }

// PortOf returns the port of a URL, that of its scheme where it names none; "" for none.
func PortOf(u *url.URL) string { return cmp.Or(u.Port(), schemePort(u.Scheme)) }

// PageURL is the URL of a page: as URL, but the only query is `model=NAME`, for a router of several models.
// `autoload=false` beside it is left out: it goes along with every reading.
type PageURL struct{ *url.URL }

// MarshalYAML renders the URL as text.
func (u PageURL) MarshalYAML() (any, error) { return URL(u).MarshalYAML() }

// url decodes a URL with parse; nil is a mistake.
func (d *decoder) url(n *yaml.Node, p path, parse func(string) (*url.URL, error)) *url.URL {
	if n.Kind != yaml.ScalarNode {
		d.errorf(p, "%v, got %s", errWantURL, got(n))
		return nil
	}
	u, err := parse(n.Value)
	d.mistake(p, err)
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

// parseAnyURL never repeats s in an error, as it may hold a key. badQuery ends the error for other queries.
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
		return nil, errors.New("URL has no host")
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

// isVersionQuery reports whether a query is none, or the one that Azure's
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

// isModelQuery reports whether a query is none, or the name of a model with or without noAutoload.
func isModelQuery(query string) bool {
	query = modelQuery(query)
	escaped, ok := strings.CutPrefix(query, "model=")
	name, err := url.QueryUnescape(escaped)
	return query == "" || ok && err == nil && labelProblem(name, maxModelBytes) == nil && !strings.ContainsAny(escaped, "&;=")
}

// validateOpenURL refuses a user in a URL that others log, which belongs under other keys. It may lack its scheme.
func (d *decoder) validateOpenURL(p path, s, instead string) {
	if s == "" {
		return // which is another mistake, or none
	}
	if !strings.Contains(s, "://") {
		s = "http://" + s
	}
	switch u, err := url.Parse(s); {
	case err != nil:
		d.errorf(p, "%v", errWantURL)
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

// Probe says what the page `/probe` may probe besides the endpoints of the file.
type Probe struct {
	// Allow lists hosts, each with or without a port: `vllm.internal`, `10.0.0.7:8000`, `[::1]:8000`, `*.internal`. A
	// host without a port allows every port; a leading `*.` matches one or more leading components of a host name.
	// Default: no other.
	Allow []string `yaml:"allow,omitempty" form:"host"`
}

// Allows reports whether a URL's host is one of those that are listed.
func (b *Probe) Allows(u *url.URL) bool {
	return slices.ContainsFunc(b.Allow, func(s string) bool {
		rule, ok := parseHost(s)
		return ok && rule.allows(u)
	})
}

func isHost(s string) bool {
	_, ok := parseHost(s)
	return ok
}

// hostRule is an item of a list of hosts: a network, or else a host.
type hostRule struct {
	network netip.Prefix
	host    string // lower case; of a wildcard what follows the asterisk, ".internal"
	port    string // "" is any
}

func parseHostRule(s string) (hostRule, bool) {
	if network, err := netip.ParsePrefix(s); err == nil {
		return hostRule{network: network.Masked()}, true
	}
	return parseHost(s)
}

func parseHost(s string) (hostRule, bool) {
	u, err := url.Parse("http://" + s)
	if err != nil || u.Host != s || !isPort(u) {
		return hostRule{}, false
	}
	r := hostRule{host: foldHost(u), port: u.Port()}
	if strings.HasPrefix(s, "[") {
		return r, net.ParseIP(r.host) != nil
	}
	names, wildcard := strings.CutPrefix(r.host, "*.")
	if wildcard {
		r.host = "." + names
	}
	return r, !slices.ContainsFunc(strings.Split(names, "."), func(name string) bool { return !isPlain(name) })
}

// portOf returns the port at which a rule allows the host of a URL, "" for any; false where it does not.
func (r hostRule) portOf(u *url.URL) (port string, ok bool) {
	host := foldHost(u)
	switch {
	case r.network.IsValid():
		address, isAddress := addressOf(u)
		return "", isAddress && r.network.Contains(address)
	case strings.HasPrefix(r.host, "."):
		return r.port, len(host) > len(r.host) && strings.HasSuffix(host, r.host)
	}
	return r.port, host == r.host
}

func (r hostRule) allows(u *url.URL) bool {
	port, ok := r.portOf(u)
	return ok && (port == "" || port == PortOf(u))
}

// foldHost is the one spelling of a host: lower case, without final dots.
func foldHost(u *url.URL) string { return strings.TrimRight(strings.ToLower(u.Hostname()), ".") }

// Allows reports whether an endpoint may have a URL with this host. Names are not resolved.
func (d *Discovery) Allows(u *url.URL) bool {
	if len(d.Allow) == 0 {
		address, _ := addressOf(u)
		return !isDelicate(foldHost(u), address)
	}
	return slices.ContainsFunc(d.allow, func(rule hostRule) bool { return rule.allows(u) })
}

// pagePorts returns the ports of a URL's host that the list of hosts allows; nil is any.
func (d *Discovery) pagePorts(u *url.URL) []string {
	var ports []string
	for _, rule := range d.allow {
		switch port, ok := rule.portOf(u); {
		case ok && port == "":
			return nil
		case ok:
			ports = append(ports, port)
		}
	}
	return ports
}

// addressOf returns the address that the host of a URL is; false for a name.
func addressOf(u *url.URL) (netip.Addr, bool) {
	address, err := netip.ParseAddr(foldHost(u))
	return address.WithZone("").Unmap(), err == nil
}

// isDelicate reports whether a host, with its address, may give credentials to any program on this machine.
func isDelicate(host string, address netip.Addr) bool {
	if address.IsValid() {
		return slices.ContainsFunc(spellings(address), isDelicateAddress)
	}
	return slices.Contains(reserved().Hosts, host) || endsInNumber(host) || !isASCII(host)
}

func isDelicateAddress(a netip.Addr) bool {
	return a.IsLinkLocalUnicast() || slices.ContainsFunc(reserved().Addresses, func(n netip.Prefix) bool { return n.Contains(a) })
}

// spellings returns an address and the IPv4 addresses that gateways translate one of IPv6 to.
func spellings(a netip.Addr) []netip.Addr {
	all := []netip.Addr{a}
	if a.Is4() {
		return all
	}
	b := a.As16()
	for _, e := range reserved().Embeddings {
		if e.Network.Contains(a) {
			var v4 [4]byte
			for i, at := range e.At {
				v4[i] = b[at]
			}
			all = append(all, netip.AddrFrom4(v4))
		}
	}
	return all
}

// isASCII is false for a host that a resolver may change: 169。254。169。254, with wide stops, becomes 169.254.169.254.
func isASCII(host string) bool {
	return !strings.ContainsFunc(host, func(c rune) bool { return c > unicode.MaxASCII })
}

// endsInNumber reports whether some resolvers read a host as an address that is
// none by its form: 2852039166 and 0xa9fea9fe are 169.254.169.254.
func endsInNumber(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		_, err := strconv.ParseUint("0"+hex, 16, 64)
		return err == nil
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}
