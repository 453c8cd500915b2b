package caddymodule

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/requestpath"
	"github.com/caddy-presets/caddy-presets/domain"
)

func fuzzHandler(f *testing.F) *Handler {
	f.Helper()
	store := openInMemory(f)
	return newBareHandler(f, store)
}

// serve sends r through h and reports whether it was passed on.
func serve(t *testing.T, h *Handler, r *http.Request) (*httptest.ResponseRecorder, bool) {
	t.Helper()
	w := httptest.NewRecorder()
	passed := false
	next := caddyhttp.HandlerFunc(func(_ http.ResponseWriter, got *http.Request) error {
		passed = true
		if got != r {
			t.Error("the request was replaced on its way to the gateway")
		}
		return nil
	})
	if err := h.ServeHTTP(w, r, next); err != nil {
		t.Errorf("got error %v, want an answer of ours", err)
	}
	if !passed && !json.Valid(w.Body.Bytes()) {
		t.Errorf("answered %d %q, want JSON", w.Code, w.Body)
	}
	return w, passed
}

// FuzzAuthorization checks that only the one key is accepted, whatever the Authorization
// header.
func FuzzAuthorization(f *testing.F) {
	h := fuzzHandler(f)
	for _, seed := range []string{"", "Bearer", "Bearer x", "bearer " + managementSecret, "Basic x", "Bearer caddypresets_mgmt_" + strings.Repeat("0", 49), "Bearer \xff", "Bearer a b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		r := httptest.NewRequest(http.MethodGet, "/v1/workspaces/default", nil)
		r.Header["Authorization"] = []string{value}
		w, passed := serve(t, h, r)
		scheme, token, _ := strings.Cut(value, " ")
		may := strings.EqualFold(scheme, "bearer") && strings.TrimLeft(token, " ") == managementSecret
		if passed || may != (w.Code == http.StatusOK) || !may && w.Code != http.StatusUnauthorized {
			t.Errorf("%q: got %d, passed on %t", value, w.Code, passed)
		}
	})
}

// readFully decodes percent-encoding repeatedly.
func readFully(p string) string {
	escape := regexp.MustCompile("%[0-9A-Fa-f]{2}")
	for {
		decoded := escape.ReplaceAllStringFunc(p, func(e string) string {
			c, _ := strconv.ParseUint(e[1:], 16, 8)
			return string([]byte{byte(c)})
		})
		if decoded == p {
			return p
		}
		p = decoded
	}
}

// hidesQuery reports whether a decoded path is that of an inference route with a query or a
// fragment.
func hidesQuery(read string) bool {
	query := strings.IndexAny(read, "?#")
	return query >= 0 && slices.ContainsFunc(inferenceRoutes, func(route inferenceRoute) bool { return read[:query] == "/v1/"+route.path })
}

// FuzzPath checks who answers a request, by its method and path. We answer if a gateway
// could read it as ours. It is refused if a gateway could read it as another request.
// Otherwise the gateway answers. A slug is stored only if it matches the pattern.
func FuzzPath(f *testing.F) {
	h := fuzzHandler(f)
	for _, seed := range []string{
		"/", "/v1/presets", "/v1/presets/a/responses", "/v1/presets/a%2Fb/responses", "/v1/presets/%ff/responses", "/v1//presets/a",
		"/v1/x/../workspaces", "/v1/presetsx", "/v1/presets/%2e%2e/responses", "/v1%2fpresets", "/v1/workspaces/%00",
		"/v1/presets%00", "/v1/presets%c0%afa", "/v1%5cpresets", "/v1;x/presets;y/a", "/v1/presets%252fa", "/v1/x;/..;/presets", "/v1/%",
		"/v1/presets%252fx;%25zz", "/%2525252e./a", "/x%0a", "/caf%E9", "/v1/presets%ff", "/v1;%2fx/presets", "/%25%32%66v1/presets", "/a%3f/../b", "/v1%3fx/presets",
		"/v1/messages%3Fmodel=m", "/v1/chat/completions%252523x",
	} {
		f.Add("POST", seed)
	}
	for _, method := range []string{"CONNECT", "TRACE", "post", "M-SEARCH", ""} {
		f.Add(method, "/v1/models")
	}
	plainMethod := regexp.MustCompile("^[A-Z0-9!#$%&'*+.^_`|~-]+$")
	dots := regexp.MustCompile(`(^|/)\.\.?([/;?#]|$)`)
	f.Fuzz(func(t *testing.T, method, path string) {
		target, err := url.ParseRequestURI(path)
		if err != nil || !strings.HasPrefix(path, "/") || target.Host != "" {
			t.Skip()
		}
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
		r.Method, r.URL = method, target
		r.Header.Set("Authorization", "Bearer "+managementSecret)
		w, passed := serve(t, h, r)

		read := readFully(target.Path)
		if got := requestpath.DecodeFully(target.Path); got != read {
			t.Errorf("%q is decoded to %q, want %q", path, got, read)
		}
		hostile := strings.ContainsFunc(read, unicode.IsControl) || strings.Contains(read, `\`) || dots.MatchString(read)
		segments := strings.FieldsFunc(strings.ToValidUTF8(read, ""), func(c rune) bool { return c == '/' })
		ours := len(segments) > 1 && segments[0] == "v1" && (segments[1] == "presets" || segments[1] == "workspaces")
		switch {
		case method == "CONNECT", method == "TRACE", !plainMethod.MatchString(method):
			if w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%q %q got %d, want 405", method, path, w.Code)
			}
		case hostile:
			if w.Code != http.StatusBadRequest {
				t.Errorf("%q %q got %d, want 400", method, path, w.Code)
			}
		case ours:
			if passed {
				t.Errorf("%q was passed on, which a gateway may read as ours", path)
			}
		case hidesQuery(read):
			if w.Code != http.StatusBadRequest {
				t.Errorf("%q got %d, though a gateway may read a query in it", path, w.Code)
			}
		case !strings.ContainsAny(read, ";?#") && utf8.ValidString(read):
			if !passed {
				t.Errorf("%q was not passed on but got %d", path, w.Code)
			}
		}
		if w.Code == http.StatusInternalServerError {
			t.Errorf("%s %q gives %s", method, path, w.Body)
		}
		if rest, ok := strings.CutPrefix(target.Path, "/v1/presets/"); ok && !passed && w.Code == http.StatusOK {
			if slug := strings.TrimSuffix(rest, "/responses"); domain.CheckPresetSlug(slug) != nil {
				t.Errorf("%q made a preset under the slug %q", path, slug)
			}
		}
	})
}

// FuzzBody sends arbitrary bodies. Each gets a valid answer and never a 500.
func FuzzBody(f *testing.F) {
	h := fuzzHandler(f)
	for _, seed := range []string{"", "{}", "null", `{"model":"m"}`, `{"name":"n","slug":"s"}`, `{"tools":[{"type":"function"}]}`, `{"top_k":1e999999999}`, "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range []string{"/v1/presets/p/responses", "/v1/workspaces"} {
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer "+managementSecret)
			if w, _ := serve(t, h, r); w.Code != 200 && w.Code != 201 && w.Code != 400 {
				t.Errorf("%s %q gives %d %s", path, body, w.Code, w.Body)
			}
		}
	})
}
