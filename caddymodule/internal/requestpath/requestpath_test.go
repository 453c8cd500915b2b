package requestpath

import (
	"testing"
)

func TestNormalizePath(t *testing.T) {
	for p, want := range map[string]string{
		"/": "/", "": ".", "*": "*", "/a/b": "/a/b", "/a//b/": "/a/b", "//a": "/a", "/a;x/b;y=1": "/a/b", "/a%2fb": "/a/b", "/a%252fb": "/a/b", "/a%25252fb": "/a/b", "/;x/a": "/a",
		"/v1/presets%252fx;%25zz": "/v1/presets/x", "/%zz%2fa": "/%zz/a", "/%": "/%", "/%2": "/%2", "/%25": "/%", "/%2525": "/%", "/%25%32%66a": "/a", "/%2%35": "/%", "/%%32%35": "/%",
		"/a?b/c": "/a", "/a%3fb/c": "/a", "/a%23b": "/a", "/caf\xe9": "/caf", "/é": "/é", "/a\xff/b": "/a/b", "/...": "/...", "/.a": "/.a", "/a.": "/a.",
	} {
		if got, _, err := Normalize(p); got != want || err != nil {
			t.Errorf("%q: got %q, %v, want %q", p, got, err, want)
		}
	}
}
