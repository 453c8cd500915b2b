package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
)

// posted is a request of a webhook as a receiver reads it.
type posted struct {
	problem string // why a receiver refuses it
	ID      string `json:"id"`
	Type    string `json:"type"`
	Data    struct {
		Slug    string `json:"slug"`
		Label   string `json:"label"`
		Version int    `json:"version"`
	} `json:"data"`
}

// readPosted checks a request as docs/events.md says.
func readPosted(r *http.Request, secret string) (p posted) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return posted{problem: err.Error()}
	}
	stamp, signature, ok := strings.Cut(strings.TrimPrefix(r.Header.Get("X-Presets-Signature"), "t="), ",v1=")
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = io.WriteString(mac, stamp+".")
	_, _ = mac.Write(body)
	if !ok || !hmac.Equal([]byte(signature), []byte(hex.EncodeToString(mac.Sum(nil)))) {
		return posted{problem: "the signature is wrong"}
	}
	if strings.Contains(string(body), "Be brief") || strings.Contains(string(body), "caddypresets_") {
		return posted{problem: "the body has a prompt or a key"}
	}
	if err := json.Unmarshal(body, &p); err != nil {
		p.problem = err.Error()
	}
	return p
}

// TestWebhook changes a preset with an issued key. A receiver gets each change once, signed
// and in order, although it fails at first.
func TestWebhook(t *testing.T) {
	t.Parallel()
	requests := make(chan posted, 16)
	first := true // requests for one preset come one after another
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := readPosted(r, gatewayKey)
		if p.Data.Slug == "notified" && first {
			first = false
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		requests <- p
	}))
	t.Cleanup(receiver.Close)
	s := startWith(t, "webhook "+receiver.URL+" {\n secret {env.E2E_GATEWAY_KEY}\n}", "reverse_proxy "+newUpstream(t).address())

	key, _ := s.issue(t, "management", "--may", "protected-labels")
	for _, change := range []struct{ method, path, body string }{
		{http.MethodPost, "/responses?template=true", `{"model": "acme/small", "instructions": "Be brief, {{name}}."}`},
		{http.MethodPut, "/labels/production", `{"version": 1, "protected": true}`},
		{http.MethodPost, "/responses?designate=false", `{"model": "acme/large"}`},
		{http.MethodPut, "/labels/production", `{"version": 2}`},
	} {
		if status, answer := s.send(t, change.method, "/v1/presets/notified"+change.path, key, change.body); status != http.StatusOK {
			t.Fatalf("%s %s: got %d %s, want 200", change.method, change.path, status, answer)
		}
	}

	type event struct {
		Type, Label string
		Version     int
	}
	want := []event{
		{"preset.version_created", "", 1},
		{"preset.version_created", "", 1}, // the first request got no success
		{"preset.label_set", "production", 1},
		{"preset.version_created", "", 2},
		{"preset.label_moved", "production", 2},
	}
	var got []event
	ids := make(map[string]int)
	for len(got) < len(want) {
		select {
		case p := <-requests:
			if p.problem != "" {
				t.Fatal(p.problem)
			}
			if p.Data.Slug == "notified" {
				got = append(got, event{p.Type, p.Data.Label, p.Data.Version})
				ids[p.ID]++
			}
		case <-time.After(patience):
			t.Fatalf("the receiver got %+v within %v, want %+v", got, patience, want)
		}
	}
	if !reflect.DeepEqual(got, want) || len(ids) != len(want)-1 {
		t.Errorf("the receiver got %+v with %d ids, want %+v", got, len(ids), want)
	}
}
