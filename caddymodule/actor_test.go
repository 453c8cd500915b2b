package caddymodule

import (
	"fmt"
	"strings"
	"testing"
)

// TestActorHeader sends changes with a header of names from a trusted proxy and from others. The
// audit trail has the name beside the key.
func TestActorHeader(t *testing.T) {
	const settings = standard + "\nkey_api\nactor_header X-Auth-Request-Email"
	s := start(t, settings)
	for i, tc := range []struct {
		options, settings string
		headers           []string
		want              string
		status            int
	}{
		{"", settings, []string{"X-Auth-Request-Email: mallory"}, "", 200},
		{"", settings, []string{"X-Auth-Request-Email: mallory", "X-Forwarded-For: 127.0.0.1"}, "", 200},
		{"trusted_proxies static 192.0.2.0/24", settings, []string{"X-Auth-Request-Email: mallory", "X-Forwarded-For: 192.0.2.1"}, "", 200},
		{"trusted_proxies static 127.0.0.0/8", settings, []string{"X-Auth-Request-Email: ann@example.com", "X-Forwarded-For: 192.0.2.1"}, "ann@example.com", 200},
		{"trusted_proxies static 127.0.0.0/8", settings, nil, "", 200},
		{"trusted_proxies static 127.0.0.0/8", settings, []string{"X-Auth-Request-Email: mallory", "X-Auth-Request-Email: ann@example.com"}, "", 400},
		{"trusted_proxies static 127.0.0.0/8", settings, []string{"X-Auth-Request-Email: " + strings.Repeat("a", 257)}, "", 400},
		{"trusted_proxies static 127.0.0.0/8", settings, []string{"X-Auth-Request-Email: ann\tbob"}, "", 400},
		{"trusted_proxies static 127.0.0.0/8", standard, []string{"X-Auth-Request-Email: mallory"}, "", 200},
	} {
		s.options = "servers {\n" + tc.options + "\n}"
		s.reload(tc.settings)
		slug := fmt.Sprintf("p%d", i)
		r := s.manage("POST", "/v1/presets/"+slug+"/chat/completions", `{"model":"m"}`, tc.headers...)
		r.want(t, tc.status)
		records := s.trail("?limit=1000").Records
		last := records[len(records)-1]
		switch {
		case tc.status != 200:
			if !strings.Contains(r.body, "x-auth-request-email") || last.Object.Slug == slug {
				t.Errorf("with %q: got %s and the record %+v", tc.headers, r.body, last)
			}
		case last.Object.Slug != slug || last.Actor != tc.want || last.KeyID != "config-management-1" || last.UserID == tc.want:
			t.Errorf("with %q and %q: got the record %+v, want the actor %q", tc.options, tc.headers, last, tc.want)
		}
	}
	// A read needs no name, and a change of a key has one.
	s.options = "servers {\ntrusted_proxies static 127.0.0.0/8\n}"
	s.reload(settings)
	s.manage("GET", "/v1/presets/p0", "", "X-Auth-Request-Email: ann\tbob").want(t, 200)
	s.manage("POST", "/v1/keys", `{"name":"k"}`, "X-Auth-Request-Email: ann").want(t, 201)
	records := s.trail("?limit=1000").Records
	if last := records[len(records)-1]; last.Operation != "key.create" || last.Actor != "ann" {
		t.Errorf("got the record %+v", last)
	}
}
