package config

import "testing"

// A page of a llama.cpp router may say that nothing is to be loaded for it, which
// holds either way. Nobody may say that it is.
func TestPageURLAutoload(t *testing.T) {
	f := func(query, want string) {
		t.Helper()
		u, err := parsePageURL("http://router:8080/metrics" + query)
		switch {
		case err == nil && want == "":
			t.Errorf("%s: no error", query)
		case err != nil && want != "":
			t.Errorf("%s: %v", query, err)
		case err == nil && u.RawQuery != want:
			t.Errorf("%s: got the query %q, want %q", query, u.RawQuery, want)
		}
	}
	f("?model=a", "model=a")
	f("?model=a&autoload=false", "model=a")
	f("?autoload=false&model=acme%2Fa", "model=acme%2Fa")
	f("?model=a&autoload=true", "")
	f("?model=a&autoload=1", "")
	f("?autoload=false", "")
	f("?model=&autoload=false", "")
	f("?model=a&autoload=false&key=b", "")
	f("?model=a&autoload=false&autoload=false", "")
	f("?autoload=false&model=a&autoload=true", "")
}

// Both spellings are one page.
func TestPageURLAutoloadTwice(t *testing.T) {
	_, err := Parse([]byte("endpoints: [{url: http://a, servers: {urls: ['http://r/metrics?model=a', 'http://r/metrics?model=a&autoload=false']}}]"), "f.yml")
	const want = "f.yml:1: endpoints[0].servers.urls[1]: the same page as endpoints[0].servers.urls[0]"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
