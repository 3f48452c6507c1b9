package config

import (
	"net/url"
	"testing"
)

func TestProbeAllows(t *testing.T) {
	f := func(pattern string, allowed, refused []string) {
		t.Helper()
		p := Probe{Allow: []string{"another", pattern}}
		check := func(urls []string, want bool) {
			t.Helper()
			for _, s := range urls {
				u, err := url.Parse(s)
				if err != nil {
					t.Fatal(err)
				}
				if got := p.Allows(u); got != want {
					t.Errorf("%s allows %s: %t", pattern, s, got)
				}
			}
		}
		check(allowed, true)
		check(refused, false)
	}
	f("h", []string{"http://h", "https://h", "http://H:8000/v1", "http://h./"}, []string{"http://h.internal", "http://a.h", "http://hh", "http://", "h"})
	f("h:8000", []string{"http://h:8000", "https://h:8000"}, []string{"http://h", "http://h:80", "http://h:80000", "http://a:8000"})
	f("h:80", []string{"http://h", "http://h:80"}, []string{"https://h", "ftp://h"})
	f("h:443", []string{"https://h", "http://h:443"}, []string{"http://h"})
	f("*.Internal.", []string{"http://a.internal", "http://a.b.INTERNAL:1"}, []string{"http://internal", "http://.internal", "http://ainternal", "http://a.internal.com"})
	f("*.internal:8000", []string{"http://a.internal:8000"}, []string{"http://a.internal", "http://internal:8000"})
	f("10.0.0.7", []string{"http://10.0.0.7:8000"}, []string{"http://110.0.0.7", "http://10.0.0.70", "http://10x0.0.7"})
	f("[::1]:8000", []string{"http://[::1]:8000"}, []string{"http://[::1]", "http://[::2]:8000"})
	f("[2001:DB8::1]", []string{"http://[2001:db8::1]:8000"}, []string{"http://[2001:db8::2]"})

	u := &url.URL{Scheme: "http", Host: "h"}
	if none := (Probe{}); none.Allows(u) {
		t.Error("an empty list allows a host")
	}
}
