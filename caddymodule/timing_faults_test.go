//go:build faults

package caddymodule

import (
	"fmt"
	"hash/crc32"
	"math"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/limiter"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/badger"
)

// The tests of this file measure, and are only as good as the machine is quiet.
// They are not part of go test ./...:
//
//	go test -tags faults -run 'TestTiming' -v ./caddymodule

const (
	timingSamples = 100_000 // of each kind of key
	// timingBound is the difference of two means, in standard errors, that counts as
	// significant. dudect uses 4.5. Equal kinds exceed it once in 150,000 comparisons.
	timingBound = 4.5
)

// TestTimingOfWrongKeys measures how long wrong keys of different kinds take. The times do
// not tell a damaged key from one that was never issued. The control refuses damaged keys without a look-up. The same samples
// reveal it.
func TestTimingOfWrongKeys(t *testing.T) {
	store, err := badger.Open(t.TempDir(), badger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	h := newMeasuredHandler(t, store)
	h.shared, h.failureLimit = newShared(t.Name()), limiter.Limit{Most: 1_000_000, Window: time.Second} // no request reaches the limit
	h.Inference = &Inference{}
	if err := h.Inference.provision(store, domain.NewMemory(domain.DefaultMemory)); err != nil {
		t.Fatal(err)
	}
	boss := domain.By(domain.Principal{KeyID: "k", UserID: "ann", Kind: domain.ManagementKey})
	var issued, revoked []string
	for i := range 500 {
		k, secret, err := h.service.IssueKey(t.Context(), boss, domain.NewKey{Kind: domain.ManagementKey})
		if err != nil {
			t.Fatal(err)
		}
		if issued = append(issued, secret); i%5 == 0 {
			if _, err := h.service.RevokeKey(t.Context(), boss, k.ID); err != nil {
				t.Fatal(err)
			}
			revoked = append(revoked, secret)
		}
	}

	const issuedLike = "caddypresets_mgmt_"
	kinds := map[string]func() string{
		"never issued":          func() string { return checked(issuedLike + randomText(43)) },
		"damaged at its end":    func() string { s := pick(issued); return s[:len(s)-6] + randomText(6) },
		"damaged in the middle": func() string { s := pick(issued); return s[:40] + otherThan(s[40]) + s[41:] },
		"garbage":               func() string { return randomText(67) },
		"short garbage":         func() string { return randomText(len(managementSecret)) },
		"configured, damaged": func() string {
			i := rand.IntN(len(managementSecret))
			return managementSecret[:i] + otherThan(managementSecret[i]) + managementSecret[i+1:]
		},
		"revoked": func() string { return pick(revoked) },
	}
	pairs := []struct {
		a, b  string
		known bool // the times may differ, because the client knows the kind of its key
	}{
		{a: "never issued", b: "damaged at its end"},
		{a: "never issued", b: "damaged in the middle"},
		{a: "never issued", b: "garbage", known: true}, // its form is public
		{a: "short garbage", b: "configured, damaged"},
		{a: "never issued", b: "revoked", known: true}, // only a former owner has it
	}
	serve := func(w http.ResponseWriter, r *http.Request) {
		_ = h.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
			t.Error("a wrong key got through")
			return nil
		}))
	}
	// The control shows that the test can detect a difference.
	early := func(w http.ResponseWriter, r *http.Request) {
		_, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if len(secret) < 6 || checked(secret[:len(secret)-6]) == secret {
			serve(w, r)
			return
		}
		c := h.newCall(w, r)
		_ = c.match()
		c.render(response{}, domain.ErrCredentials)
	}
	for _, path := range []string{"GET /v1/presets", "POST /v1/chat/completions"} {
		times := measured(t, path, kinds, serve)
		for _, p := range pairs {
			got := welch(times[p.a], times[p.b])
			t.Logf("%-26s %s (%s) and %s (%s): t = %.2f", path, p.a, mean(times[p.a]), p.b, mean(times[p.b]), got)
			if math.Abs(got) > timingBound && !p.known {
				t.Errorf("%s: %s and %s are told apart: t = %.2f", path, p.a, p.b, got)
			}
		}
	}
	control := measured(t, "GET /v1/presets", map[string]func() string{"never issued": kinds["never issued"], "damaged at its end": kinds["damaged at its end"]}, early)
	got := welch(control["never issued"], control["damaged at its end"])
	t.Logf("control: t = %.2f", got)
	if math.Abs(got) < timingBound {
		t.Errorf("the test is blind: it does not tell an early refusal from a late one: t = %.2f", got)
	}
}

// measured returns the times of requests with each kind of key, in nanoseconds. It drops
// the slowest twentieth, which other load on the machine may have delayed.
func measured(t *testing.T, line string, kinds map[string]func() string, serve http.HandlerFunc) map[string][]float64 {
	t.Helper()
	type sample struct {
		kind, secret string
		took         float64
	}
	var samples []sample
	for kind, secret := range kinds { // all at first, so that their creation does not affect the times
		for range timingSamples {
			samples = append(samples, sample{kind: kind, secret: "Bearer " + secret()})
		}
	}
	rand.Shuffle(len(samples), func(i, j int) { samples[i], samples[j] = samples[j], samples[i] })
	// A key's place in memory depends on its creation. Copies remove this effect on the
	// time.
	for i := range samples {
		samples[i].secret = strings.Clone(samples[i].secret)
	}
	method, path, _ := strings.Cut(line, " ")
	template := httptest.NewRequest(method, "http://x"+path, nil)
	w := &discarded{header: make(http.Header)}
	for i := range samples {
		r := caddyhttp.PrepareRequest(template, caddy.NewReplacer(), w, nil)
		r.Header = http.Header{"Authorization": {samples[i].secret}}
		clear(w.header)
		start := time.Now()
		serve(w, r)
		samples[i].took = float64(time.Since(start))
		if w.status != http.StatusUnauthorized {
			t.Fatalf("%s: got status %d, want 401", samples[i].kind, w.status)
		}
	}
	slices.SortFunc(samples, func(a, b sample) int { return int(a.took - b.took) })
	times := make(map[string][]float64)
	for _, s := range samples[:len(samples)*19/20] {
		times[s.kind] = append(times[s.kind], s.took)
	}
	return times
}

// welch returns Welch's t of two samples.
func welch(a, b []float64) float64 {
	meanA, varA := moments(a)
	meanB, varB := moments(b)
	return (meanA - meanB) / math.Sqrt(varA/float64(len(a))+varB/float64(len(b)))
}

func moments(x []float64) (mean, variance float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		variance += (v - mean) * (v - mean) / float64(len(x)-1)
	}
	return mean, variance
}

func mean(x []float64) string {
	m, _ := moments(x)
	return fmt.Sprintf("%.0f ns", m)
}

const base62 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

func randomText(n int) string {
	text := make([]byte, n)
	for i := range text {
		text[i] = base62[rand.IntN(len(base62))]
	}
	return string(text)
}

func pick(of []string) string { return of[rand.IntN(len(of))] }

// otherThan returns a character that is not c.
func otherThan(c byte) string {
	for {
		if other := base62[rand.IntN(len(base62))]; other != c {
			return string(other)
		}
	}
}

// checked returns body with the checksum of an issued key.
func checked(body string) string {
	sum := new(big.Int).SetUint64(uint64(crc32.ChecksumIEEE([]byte(body)))).Text(62)
	return body + strings.Repeat("0", 6-len(sum)) + sum
}
