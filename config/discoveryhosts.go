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

// Allows tells whether an endpoint may have a URL with this host. It goes by
// what the URL says: what a name resolves to is not looked up.
func (d *Discovery) Allows(u *url.URL) bool {
	address, err := netip.ParseAddr(foldHost(u))
	isAddress := err == nil
	if isAddress {
		address = address.WithZone("").Unmap()
	}
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

// isDelicate tells whether a host, with its address if it is one, is a place
// that hands out credentials to whoever asks from this machine.
func isDelicate(host string, address netip.Addr) bool {
	if address.IsValid() {
		return address.IsLinkLocalUnicast() || slices.Contains(metadataAddresses(), address)
	}
	return slices.Contains(metadataNames(), host) || endsInNumber(host) || !isASCII(host)
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
		"metadata.azure.internal", "metadata.tencentyun.com",
	}
}

// metadataAddresses are those of their addresses that are not link-local: of
// Alibaba, Azure, AWS and Google.
func metadataAddresses() []netip.Addr {
	return []netip.Addr{
		netip.MustParseAddr("100.100.100.200"),
		netip.MustParseAddr("168.63.129.16"),
		netip.MustParseAddr("fd00:ec2::254"),
		netip.MustParseAddr("fd20:ce::254"),
	}
}
