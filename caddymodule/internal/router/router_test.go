package router

import (
	"net/http"
	"testing"
)

// TestFind checks which operation a request finds, with which values, and which methods a path has.
func TestFind(t *testing.T) {
	var rt Router[string]
	rt.Add("POST", "/kü/keys/prune", "prune")
	rt.Add("GET", "/kü/keys/{id}", "get")
	rt.Add("DELETE", "/kü/keys/{id}", "delete")
	rt.Add("POST", "/kü/keys/{id}/remove", "remove")
	for _, tc := range []struct{ method, path, op, id, allow string }{
		{"POST", "/k%C3%BC/keys/prune", "prune", "", ""},
		{"GET", "/kü/keys/prune", "get", "prune", ""},
		{"HEAD", "/k%c3%bc/%6beys/a%2Fb", "get", "a/b", ""},
		{"DELETE", "/kü/keys/%7Bid%7D", "delete", "{id}", ""},
		{"POST", "/kü/keys/x/remove", "remove", "x", ""},
		{"PUT", "/kü/keys/x", "", "", "DELETE, GET, HEAD"},
		{"PUT", "/kü/keys/prune", "", "", "DELETE, GET, HEAD, POST"},
		{"POST", "/kü/keys//remove", "", "", ""},
		{"GET", "/kü/keys/", "", "", ""},
		{"GET", "/kü/keys", "", "", ""},
		{"GET", "/kü//keys/x", "", "", ""},
		{"GET", "/kü/keys/x/", "", "", ""},
		{"GET", "/", "", "", ""},
	} {
		r, err := http.NewRequest(tc.method, tc.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		m := rt.Find(r)
		op := ""
		if m.Op != nil {
			op = *m.Op
		}
		if op != tc.op || m.Value("id") != tc.id || m.Value("other") != "" || m.Allow != tc.allow {
			t.Errorf("%s %s: got %q with id %q and allow %q, want %+v", tc.method, tc.path, op, m.Value("id"), m.Allow, tc)
		}
	}
}
