package config

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// hostRule is an item of a discovery's list of hosts: a network, or else a
// pattern.
type hostRule struct {
	network netip.Prefix
	pattern hostPattern
}

func parseHostRule(s string) (hostRule, bool) {
	if network, err := netip.ParsePrefix(s); err == nil {
		return hostRule{network: network.Masked()}, true
	}
	pattern, ok := parseHostPattern(s)
	return hostRule{pattern: pattern}, ok
}

// Allows reports whether an endpoint may have a URL with this host. It goes by
// what the URL says: what a name resolves to is not looked up.
func (d *Discovery) Allows(u *url.URL) bool {
	address, isAddress := addressOf(u)
	if len(d.Allow) == 0 {
		return !isDelicate(foldHost(u), address)
	}
	for _, rule := range d.allow {
		if rule.network.IsValid() {
			if isAddress && rule.network.Contains(address) {
				return true
			}
		} else if rule.pattern.matches(u) {
			return true
		}
	}
	return false
}

// pagePorts returns the ports of a URL's host that the list of hosts allows; nil
// is any.
func (d *Discovery) pagePorts(u *url.URL) []string {
	address, isAddress := addressOf(u)
	var ports []string
	for _, rule := range d.allow {
		switch {
		case rule.network.IsValid():
			if isAddress && rule.network.Contains(address) {
				return nil
			}
		case !rule.pattern.matchesHost(foldHost(u)):
		case rule.pattern.port == "":
			return nil
		default:
			ports = append(ports, rule.pattern.port)
		}
	}
	return ports
}

// addressOf returns the address that the host of a URL is; false for a name.
func addressOf(u *url.URL) (netip.Addr, bool) {
	address, err := netip.ParseAddr(foldHost(u))
	return address.WithZone("").Unmap(), err == nil
}

// isDelicate reports whether a host, with its address if it is one, is a place
// that hands out credentials to whoever asks from this machine.
func isDelicate(host string, address netip.Addr) bool {
	if address.IsValid() {
		return slices.ContainsFunc(spellings(address), isDelicateAddress)
	}
	return slices.Contains(metadataNames(), host) || endsInNumber(host) || !isASCII(host)
}

func isDelicateAddress(a netip.Addr) bool {
	return a.IsLinkLocalUnicast() || slices.ContainsFunc(metadataAddresses(), func(n netip.Prefix) bool { return n.Contains(a) })
}

// spellings returns an address, and the IPv4 addresses that gateways make of it
// where it is one of IPv6.
func spellings(a netip.Addr) []netip.Addr {
	all := []netip.Addr{a}
	if a.Is4() {
		return all
	}
	b := a.As16()
	for _, e := range embeddings() {
		if e.network.Contains(a) {
			var v4 [4]byte
			for i, at := range e.at {
				v4[i] = b[at]
			}
			all = append(all, netip.AddrFrom4(v4))
		}
	}
	return all
}

// embedding is a network of IPv6 whose addresses contain one of IPv4.
type embedding struct {
	network netip.Prefix
	at      [4]int // its bytes
}

func embeddings() []embedding {
	last := [4]int{12, 13, 14, 15}
	return []embedding{
		{netip.MustParsePrefix("::/96"), last},                           // IPv4-compatible, RFC 4291
		{netip.MustParsePrefix("::ffff:0:0:0/96"), last},                 // IPv4-translated, RFC 2765
		{netip.MustParsePrefix("64:ff9b::/96"), last},                    // NAT64, RFC 6052
		{netip.MustParsePrefix("64:ff9b:1::/48"), last},                  // NAT64 of a site, RFC 8215, with a prefix of 96 bits
		{netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{9, 10, 11, 12}}, // of 64 bits
		{netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{7, 9, 10, 11}},  // of 56 bits
		{netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{6, 7, 9, 10}},   // of 48 bits
		{netip.MustParsePrefix("2002::/16"), [4]int{2, 3, 4, 5}},         // 6to4, RFC 3056
	}
}

// isASCII is false for a host that is only later turned into the name that is asked
// for: 169。254。169。254, with ideographic stops, becomes 169.254.169.254.
func isASCII(host string) bool {
	return !strings.ContainsFunc(host, func(c rune) bool { return c > unicode.MaxASCII })
}

// endsInNumber tells whether some resolvers take a host that is no address for
// one nevertheless: 2852039166 and 0xa9fea9fe are 169.254.169.254.
func endsInNumber(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		_, err := strconv.ParseUint("0"+hex, 16, 64)
		return err == nil
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

// metadataNames are the names of the metadata services of clouds.
func metadataNames() []string {
	return []string{
		"instance-data", "instance-data.ec2.internal",
		"metadata", "metadata.google.internal", "metadata.goog",
		"metadata.azure.internal", "metadata.tencentyun.com", "api.metadata.cloud.ibm.com",
	}
}

// metadataAddresses are those of their addresses that are not link-local: of
// Alibaba, Azure, Oracle, AWS (instances and pods) and Google.
func metadataAddresses() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("100.100.100.200/32"),
		netip.MustParsePrefix("168.63.129.16/32"),
		netip.MustParsePrefix("192.0.0.192/32"),
		netip.MustParsePrefix("fd00:ec2::/32"),
		netip.MustParsePrefix("fd20:ce::254/128"),
	}
}
