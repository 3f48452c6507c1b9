package web

import (
	"io/fs"
	"net/http"
	"path"
	"strings"
	"testing"
	"testing/fstest"
)

func TestAssets(t *testing.T) {
	s := newSiteWith(t, everything)
	defer s.Close()
	types := map[string]string{
		".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
		".md": "text/plain; charset=utf-8", ".LICENSE": "text/plain; charset=utf-8",
	}
	err := fs.WalkDir(assets, "assets", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			t.Fatal(err)
		}
		if entry.IsDir() {
			for _, p := range []string{"/" + name, "/" + name + "/"} {
				if resp := s.ask(http.MethodGet, p); resp.StatusCode != http.StatusNotFound {
					t.Errorf("%s: status %d", p, resp.StatusCode)
				}
			}
			return nil
		}
		if name == "assets/page.html" {
			if resp := s.ask(http.MethodGet, "/"+name); resp.StatusCode != http.StatusNotFound {
				t.Errorf("the frame of the pages is a file too: status %d", resp.StatusCode)
			}
			return nil
		}
		want, err := assets.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		resp := s.ask(http.MethodGet, "/"+name)
		if body := readAll(t, resp.Body); resp.StatusCode != http.StatusOK || body != string(want) {
			t.Errorf("%s: status %d, %d bytes, want %d", name, resp.StatusCode, len(body), len(want))
		}
		if got := resp.Header.Get("Content-Type"); got != types[path.Ext(name)] {
			t.Errorf("%s: type %q, want %q", name, got, types[path.Ext(name)])
		}
		tag := resp.Header.Get("ETag")
		if resp := s.ask(http.MethodGet, "/"+name, "If-None-Match", tag); resp.StatusCode != http.StatusNotModified || tag == "" {
			t.Errorf("%s: the same again has status %d, tag %q", name, resp.StatusCode, tag)
		}
		if resp := s.ask(http.MethodGet, "/"+name, "If-None-Match", `"other"`); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: a newer one has status %d", name, resp.StatusCode)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Two files have two tags, and a file keeps its own when it is compressed.
func TestTags(t *testing.T) {
	f := func(content, encoding string) string {
		t.Helper()
		routes := []route{{"GET /x.js", serveAsset(fstest.MapFS{"x.js": {Data: []byte(content)}}, "x.js", content)}}
		newCompression().compress(routes)
		s := &site{Server: &Server{handler: routes[0].handler}, t: t}
		resp := s.ask(http.MethodGet, "/x.js", "Accept-Encoding", encoding)
		if got := resp.Header.Get("Content-Encoding"); got != encoding {
			t.Errorf("encoding %q, want %q", got, encoding)
		}
		return resp.Header.Get("ETag")
	}
	one, two := strings.Repeat("1", 2000), strings.Repeat("2", 2000)
	if a, b, c := f(one, ""), f(one, "gzip"), f(two, ""); a != b || a == c || !strings.HasPrefix(a, `W/"`) {
		t.Errorf("tags %s, %s, %s", a, b, c)
	}
}
