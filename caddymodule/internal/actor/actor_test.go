package actor

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/secrets"
)

func TestOf(t *testing.T) {
	const header = "X-Auth-Request-Email"
	for name, tc := range map[string]struct {
		trusted any
		values  []string
		want    string
		refused bool
	}{
		"no proxy":            {nil, []string{"ann"}, "", false},
		"an untrusted one":    {false, []string{"ann", "bob"}, "", false},
		"a trusted one":       {true, []string{"ann@example.com"}, "ann@example.com", false},
		"another alphabet":    {true, []string{"Änn Müller 安"}, "Änn Müller 安", false},
		"no header":           {true, nil, "", false},
		"an empty header":     {true, []string{""}, "", false},
		"two":                 {true, []string{"ann", "bob"}, "", true},
		"two, one of nothing": {true, []string{"", "bob"}, "", true},
		"the longest":         {true, []string{strings.Repeat("a", 256)}, strings.Repeat("a", 256), false},
		"too long":            {true, []string{strings.Repeat("a", 257)}, "", true},
		"a tab":               {true, []string{"ann\tbob"}, "", true},
		"an escape":           {true, []string{"ann\x1b[2J"}, "", true},
		"the other direction": {true, []string{"ann\u202ebob"}, "", true},
		"Latin-1":             {true, []string{"\xc4nn"}, "", true},
		"a masked key":        {true, []string{string(secrets.Hidden) + "0123456789abcdef"}, "", true},
	} {
		vars := map[string]any{}
		if tc.trusted != nil {
			vars[caddyhttp.TrustedProxyVarKey] = tc.trusted
		}
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r = r.WithContext(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, vars))
		r.Header[header] = tc.values
		got, err := Of(r, strings.ToLower(header))
		if got != tc.want || (domain.KindOf(err) == domain.Invalid) != tc.refused || (err != nil) != tc.refused {
			t.Errorf("%s: got %q, %v, want %q, refused: %t", name, got, err, tc.want, tc.refused)
		}
		if got, err := Of(r, ""); got != "" || err != nil {
			t.Errorf("%s: without a header got %q, %v", name, got, err)
		}
	}
}

func TestCheckHeader(t *testing.T) {
	for name, want := range map[string]bool{
		"X-Auth-Request-Email": true, "remote-user": true,
		"": false, "X_User": false, "X-User:": false, "X User": false, "Ünser": false, "authorization": false, "X-API-Key": false,
	} {
		if err := CheckHeader(name); (err == nil) != want {
			t.Errorf("%q: got %v, want it taken: %t", name, err, want)
		}
	}
}
