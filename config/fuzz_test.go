package config

import (
	"os"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// FuzzParse checks that no input panics, and that what is accepted prints as
// a file that means the same.
func FuzzParse(f *testing.F) {
	setEnv(f)
	for _, bad := range readBadFiles(f) {
		f.Add([]byte(bad.text))
	}
	for _, name := range goodFiles(f) {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data, "testdata/fuzz.yml")
		if (c == nil) != (err != nil) {
			t.Fatalf("got %v and %v", c, err)
		}
		if err == nil {
			checkRoundTrip(t, c, "testdata/fuzz.yml")
		}
	})
}

// FuzzDiscoveryEndpoint checks that an endpoint which is made of a target is one
// that a file could have, at a host that is allowed, and that an error does not
// repeat what may hold a password.
func FuzzDiscoveryEndpoint(f *testing.F) {
	f.Add("http://h:8000/v1", "", "", "", "", "")
	f.Add("", "h:8000", "https", "/llama/v1", "", "a,b")
	f.Add("", "[::1]", "", "", "name", "rag, agent")
	f.Add("", "169.254.169.254", "http", "//x", "", "")
	f.Add("http://ann:pass@h", "ann:pass@h", "", "@h", "", "")
	d := discoveryOf(f, "")
	f.Fuzz(func(t *testing.T, url, address, scheme, at, name, modules string) {
		e, err := d.Endpoint(labels.FromStrings(
			LabelURL, url, model.AddressLabel, address, model.SchemeLabel, scheme, LabelPath, at, labelEndpoint, name, labelModules, modules,
		))
		if err != nil {
			for _, s := range []string{url, address, at} {
				if len(s) > 20 && strings.Contains(err.Error(), s) {
					t.Errorf("the error repeats %q: %v", s, err)
				}
			}
			return
		}
		if !d.Allows(e.URL.URL) || e.URL.User != nil {
			t.Errorf("made an endpoint at %s", e.URL)
		}
		if _, err := FromURLs([]string{e.URL.String()}); err != nil && !strings.Contains(err.Error(), ".name: ") {
			t.Errorf("not as in a file: %v", err)
		}
		if name != "" && e.Name != name || e.Name == "" || len(e.Name) > maxNameBytes {
			t.Errorf("the name is %q, want %q", e.Name, name)
		}
	})
}
