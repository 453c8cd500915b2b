package ownkeys

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/registry"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/secrets"
)

// TestConfiguredKeysAreTokens checks that a configured key is found as a token between the
// usual delimiters. Longer tokens that contain it are not keys.
func TestConfiguredKeysAreTokens(t *testing.T) {
	const key = "a-configured-key/of=the:tests"
	f := Finder{Own: map[domain.KeyHash]domain.Principal{domain.HashSecret(key): {}}}
	for text, want := range map[string]bool{
		"K": true, "Bearer K": true, "Bearer  K": true, "Bearer\tK": true, "Token K ": true, "key:K": true, "key=K": true, "key: K": true, "<K>": true, "Bearer <K>": true,
		`"K"`: true, `'K',`: true, "(K)": true, "[K]": true, "{K}": true, "a, K, b": true, "a;K": true, "key:<K>": true, `key="K"`: true, "K:": true, "ann:K": true, "K x": true,
		"Basic " + base64.StdEncoding.EncodeToString([]byte("ann:"+key)): true,
		"Kx": false, "xK": false, "K-2": false, "x.K": false, "": false, "Bearer": false, " ": false, "Bearer sk-foreign-bearer-of-the-tests": false,
		strings.Repeat(":", 20_000): false, strings.Repeat("a=", 10_000): false,
	} {
		if got := f.HoldsKey(strings.ReplaceAll(text, "K", key)); got != want {
			t.Errorf("%.60q: got %t, want %t", text, got, want)
		}
	}
	for _, name := range []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key"} {
		r := &http.Request{Header: http.Header{name: {"other", "Bearer " + key, "another"}, "X-Whatever": {key}}}
		f.StripOwnKeys(r)
		if len(r.Header) != 1 || r.Header["X-Whatever"] == nil {
			t.Errorf("%s: got %v, want all values of the one header gone, and no other", name, r.Header)
		}
	}
}

// TestTokensOfAHeaderAreBounded checks how many tokens of a header are compared with keys. A header
// with more counts as one of ours. The usual schemes with parameters have far fewer.
func TestTokensOfAHeaderAreBounded(t *testing.T) {
	f := Finder{Own: map[domain.KeyHash]domain.Principal{domain.HashSecret(caddytest.ManagementSecret): {}}}
	compared := func(values ...string) int {
		search := keySearch{f, 1 << 30}
		for _, value := range values {
			if search.holdsUnmarked(value) {
				t.Errorf("%.60q: is a key", value)
			}
		}
		return 1<<30 - search.left
	}
	hash := strings.Repeat("0123456789abcdef", 4)
	for _, value := range []string{
		`Digest username="a-rather-long-user-name", realm="http-auth@example.org", uri="/dir/index-of-all.html", algorithm=SHA-256, nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", nc=00000001, cnonce="f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ", qop=auth, response="` + hash + `", opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"`,
		`OAuth realm="https://photos.example.org/", oauth_consumer_key="dpf43f3p2l4k3l03-long", oauth_token="nnch734d00sl2jdk-long", oauth_signature_method="HMAC-SHA256-long", oauth_timestamp="1191242096", oauth_nonce="kllo9940pd9333jh-long", oauth_version="1.0", oauth_signature="tR3%2BTy81lMeYAr%2FFid0kMTYa%2FWM%3D"`,
		`AWS4-HMAC-SHA256 Credential=AKIDEXAMPLEAKIDEXAMPLE/20150830/us-east-1/bedrock/aws4_request, SignedHeaders=content-type;host;x-amz-content-sha256;x-amz-date;x-amz-security-token, Signature=` + hash,
	} {
		if n := compared(value); n > maxTokens/2 || f.HoldsKey(value) {
			t.Errorf("%.20s: %d tokens are compared, want at most %d", value, n, maxTokens/2)
		}
	}
	word := strings.Repeat("a", 20) + strings.Repeat("=", 16) + strings.Repeat("b", 20) + " "
	hostile := strings.Repeat(word, 70)
	if n := compared(hostile); n < 10*maxTokens {
		t.Fatalf("%d tokens are compared without the limit: the header is not hostile", n)
	}
	few := strings.Repeat("c", 20) + "=x"
	for _, values := range [][]string{{hostile}, slices.Repeat([]string{word}, 70), slices.Repeat([]string{few}, maxTokens+1)} {
		if !f.isOwn("Authorization", values) {
			t.Errorf("%d values: not taken for a key", len(values))
		}
		if (Finder{}).isOwn("Authorization", values) {
			t.Error("is taken for a key where none is configured")
		}
	}
	if others := strings.Repeat(few+" ", 10); f.HoldsKey(others+others) || !f.HoldsKey(others+caddytest.ManagementSecret+" "+others) {
		t.Error("a key between other tokens is not found, or tokens without a key are one")
	}
}

// TestMaskingManyValuesIsBounded sends many values in one header. A stranger cannot make
// the guard expensive with them.
func TestMaskingManyValuesIsBounded(t *testing.T) {
	const many = 20_000
	r := httptest.NewRequest("GET", "/", nil)
	for i := range many {
		r.Header.Add("Authorization", fmt.Sprint(string(secrets.Hidden), i))
		r.Header.Add("Cookie", fmt.Sprint("a=caddypresets_inf_", i))
	}
	r.Header.Set("X-Api-Key", "caddypresets_inf_x")
	masked := Finder{}.maskOwnKeys(r)
	hidden, _ := masked.Context().Value(hiddenKeysCtxKey{}).([]hiddenKey)
	if len(hidden) != 1 {
		t.Errorf("got %d credentials to look for, want one, of the header that is given once", len(hidden))
	}
	if got := SentValues(masked, "X-Api-Key"); !slices.Equal(got, []string{"caddypresets_inf_x"}) {
		t.Errorf("got %q, want what was sent", got)
	}
	if got := SentValues(masked, "Authorization"); len(got) != many || &got[0] != &masked.Header["Authorization"][0] {
		t.Errorf("got %d values of a header that is given more than once, want the masked ones as they are", len(got))
	}
	for _, value := range masked.Header["Cookie"] {
		if strings.Contains(value, "_inf_") {
			t.Fatalf("got %q, want a mask", value)
		}
	}
}

// TestUnmaskingIsLinear hides a key in each of many headers. A long value is not searched
// for all of them: neither one without a key, nor the text behind a mask.
func TestUnmaskingIsLinear(t *testing.T) {
	const many = 2000
	r := httptest.NewRequest("GET", "/", nil)
	var masks strings.Builder
	for i := range many {
		key := fmt.Sprint("caddypresets_inf_", i)
		r.Header.Set(fmt.Sprint("X-", i), key)
		masks.WriteString(maskOf(key)) // which the client knows if a gateway shows it
	}
	const foreign = "another's key"
	r.Header.Set("Authorization", "Bearer "+masks.String())
	r.Header.Set("X-Api-Key", foreign)
	masked := Finder{}.maskOwnKeys(r)
	if hidden, _ := masked.Context().Value(hiddenKeysCtxKey{}).([]hiddenKey); len(hidden) != many+1 {
		t.Fatalf("got %d hidden keys, want %d", len(hidden), many+1)
	}
	if got := SentValues(masked, "Authorization"); !slices.Equal(got, []string{"Bearer " + masks.String()}) {
		t.Error("masks in a credential were replaced")
	}
	if got := SentValues(masked, "X-Api-Key"); got[0] != foreign || &got[0] != &masked.Header["X-Api-Key"][0] {
		t.Errorf("got %q, want the header's value as it is", got)
	}
	masked.Header.Set("X-Api-Key", "a "+masked.Header.Get("X-7")+masked.Header.Get("X-8")+" b") // by an earlier handler
	if got, want := SentValues(masked, "X-Api-Key"), "a caddypresets_inf_7"+masked.Header.Get("X-8")+" b"; !slices.Equal(got, []string{want}) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// BenchmarkKeyGuard measures the guard's cost per request before Caddy handles it.
func BenchmarkKeyGuard(b *testing.B) {
	use := &registry.Use{Keys: []domain.Principal{{Hash: domain.HashSecret(caddytest.InferenceSecret)}}}
	store := registry.Add("of the benchmark", use)
	b.Cleanup(func() { _ = store.Remove(use) })
	guard := &guard{next: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), finder: Finder{Stores: []*registry.Store{store}}}
	for name, authorization := range map[string]string{
		"another's key": "Bearer sk-foreign-bearer-of-the-tests", "issued key": "Bearer caddypresets_inf_" + strings.Repeat("x", 49), "configured key": "Bearer " + caddytest.InferenceSecret,
	} {
		b.Run(name, func(b *testing.B) {
			r := httptest.NewRequest("POST", "/v1/chat/completions", nil)
			r.Header = sdkHeaders("")
			values := []string{""}
			b.ReportAllocs()
			for b.Loop() {
				values[0] = authorization
				r.Header["Authorization"] = values
				guard.ServeHTTP(nil, r)
			}
		})
	}
}

// sdkHeaders are a client library's headers.
func sdkHeaders(authorization string) http.Header {
	return http.Header{
		"Authorization": {authorization}, "Content-Type": {"application/json"}, "Accept": {"application/json"}, "Accept-Encoding": {"gzip, deflate"},
		"User-Agent": {"OpenAI/Python 1.99.0"}, "X-Stainless-Lang": {"python"}, "X-Stainless-Package-Version": {"1.99.0"}, "X-Stainless-Os": {"Linux"},
		"X-Stainless-Runtime-Version": {"3.13.1"}, "X-Request-Id": {"01a1fd9a-8272-7f39-a41b-d0ecb9aea248"}, "Connection": {"keep-alive"},
	}
}
