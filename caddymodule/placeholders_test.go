package caddymodule

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// TestPlaceholdersOfSeveralHandlers checks that all handlers of a request share one set of
// placeholders. Later values replace earlier ones. Those without a value are unknown until
// an inference request sets them to empty.
func TestPlaceholdersOfSeveralHandlers(t *testing.T) {
	repl := caddy.NewReplacer()
	r := httptest.NewRequest("GET", "/", nil)
	r = r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, repl))
	want := func(text, value string) {
		t.Helper()
		if got := repl.ReplaceKnown(text, ""); got != value {
			t.Errorf("%s gives %q, want %q", text, got, value)
		}
	}
	outer := new(Handler).newCall(nil, r)
	outer.setPlaceholder(slugPlaceholder, "a")
	outer.setPlaceholder(versionPlaceholder, "1")
	want("{http.presets.slug}@{http.presets.version}", "a@1")
	want("{http.presets.key_id}", "{http.presets.key_id}")
	inner := &inferenceCall{call: new(Handler).newCall(nil, r)}
	inner.mapPlaceholders()
	inner.setPlaceholder(slugPlaceholder, "b")
	want("{http.presets.slug}@{http.presets.version}", "b@1")
	want("{http.presets.key_id}{http.presets.}{http.presets.no_such}", "")
	want("{http.presetsx}", "{http.presetsx}")

	alone := new(Handler).newCall(nil, httptest.NewRequest("GET", "/", nil))
	alone.setPlaceholder(slugPlaceholder, "a") // no replacer, so nothing can see it
}
