package caddymodule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/clientip"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/limiter"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/status"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
)

// limited is standard with another failure limit.
func limited(limit string) string {
	return strings.Replace(standard, "auth_failure_limit 1000000", "auth_failure_limit "+limit, 1)
}

// slowKeys is a store whose key look-ups take 300 ms each.
type slowKeys struct {
	domain.Store
	stamps    *domain.Stamps
	now, most atomic.Int32
}

func (s *slowKeys) Stamps() *domain.Stamps { return s.stamps }

func (s *slowKeys) Node() string { return "" }

func (s *slowKeys) View(context.Context, func(domain.Reader) error) error {
	n := s.now.Add(1)
	defer s.now.Add(-1)
	for m := s.most.Load(); n > m && !s.most.CompareAndSwap(m, n); m = s.most.Load() {
	}
	time.Sleep(300 * time.Millisecond) // the clock of the bubble
	return domain.ErrNotFound
}

// TestFailuresLoadTheStoreLittle sends many wrong keys from limited addresses. The store
// looks up few of them at a time. Requests that would wait too long are refused, and those
// of clients that left are dropped.
func TestFailuresLoadTheStoreLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowKeys{stamps: domain.NewStamps()}
		h := &Handler{shared: newShared(t.Name()), failureLimit: limiter.Limit{Most: 1, Window: time.Hour}, service: domain.NewService(store), logger: zap.NewNop(), keys: map[domain.KeyHash]domain.Principal{
			domain.HashSecret(managementSecret): {KeyID: "config-management-1"},
		}}
		guess := func(ctx context.Context, address int) error {
			r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
			r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1", address)
			_, err := (&call{h: h, r: r}).identify("a-guess")
			return err
		}
		for address := range 2 {
			if err := guess(t.Context(), address); !errors.Is(err, domain.ErrCredentials) {
				t.Errorf("got %v, want that the key is wrong", err)
			}
		}
		var limited atomic.Int32
		var wg sync.WaitGroup
		began := time.Now()
		for n := range 100 {
			wg.Go(func() {
				if isLimited(guess(t.Context(), n%2)) {
					limited.Add(1)
				}
			})
		}
		synctest.Wait() // few are looked up at a time, the others wait
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() { gone <- guess(ctx, 0) }()
		synctest.Wait()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that the client is gone", err)
		}
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = "192.0.2.0:1"
		if _, err := (&call{h: h, r: r}).identify(managementSecret); err != nil || time.Since(began) > 0 {
			t.Errorf("a key in memory: got %v after %s, want it at once", err, time.Since(began))
		}
		wg.Wait()
		if limited.Load() != 100 || store.most.Load() != limiter.MaxLookups || time.Since(began) > 2*limiter.MaxLookupWait {
			t.Errorf("got %d refusals after %s, and %d look-ups at once, want 100 within 2s, and %d",
				limited.Load(), time.Since(began), store.most.Load(), limiter.MaxLookups)
		}
	})
}

func TestOrigin(t *testing.T) {
	of := func(remote string) limiter.Origin {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = remote
		return originOf(r)
	}
	for _, tc := range []struct {
		a, b string
		same bool
		text string
	}{
		{"192.0.2.1:1", "192.0.2.1:2", true, "192.0.2.1"},
		{"192.0.2.1:1", "192.0.2.2:1", false, "192.0.2.1"},
		{"192.0.2.1:1", "[::ffff:192.0.2.1]:1", true, "192.0.2.1"},
		{"[2001:db8:1:2::1]:1", "[2001:db8:1:2:ffff:ffff:ffff:ffff]:1", true, "2001:db8:1:2::/64"},
		{"[2001:db8:1:2::1]:1", "[2001:db8:1:3::1]:1", false, "2001:db8:1:2::/64"},
		{"[::1]:1", "[::2]:1", true, "::/64"},
		{"[::1]:1", "@", false, "::/64"},
		{"0.0.0.0:1", "[::]:1", false, "0.0.0.0"},
		{"[fe80::1%eth0]:1", "[fe80::2%eth1]:1", true, "fe80::/64"},
		{"@", "", true, "unknown"},
		{"nonsense:1", "@", true, "unknown"},
	} {
		a, b := of(tc.a), of(tc.b)
		if (a == b) != tc.same || a.String() != tc.text {
			t.Errorf("%s and %s: got %s and %s, want %s, the same %t", tc.a, tc.b, a, b, tc.text, tc.same)
		}
	}
}

// TestAuthFailureLimit sends too many wrong keys from one address. It gets 429 in each
// dialect's envelope. Valid keys still work from that address.
func TestAuthFailureLimit(t *testing.T) {
	s := start(t, standard)
	issued, caller := s.issue(`{"kind":"management"}`).secret, s.issue(`{"kind":"inference"}`).secret
	revoked := s.issue(`{"kind":"management"}`)
	s.reload(limited("5 24h") + "\ninference {\nkeys required\nlist_models on\n}")
	get := func(secret string) reply { return s.do("GET", "/v1/workspaces/default", "", bearer(secret)) }

	get(revoked.secret).want(t, 200)
	for range 50 { // which are no guesses
		s.do("GET", "/v1/workspaces/default", "").wantError(t, 401, "Missing Authentication header")
		s.do("POST", chatPath, `{"model":"m"}`).wantError(t, 401, "Missing Authentication header")
		s.do("POST", chatPath, `{"model":"m"}`, bearer(caller), "X-Api-Key: "+foreignKey).want(t, 202) // another's, beside ours
	}
	s.upstream.all()
	get("a-guess").wantError(t, 401, "Invalid credentials")
	s.do("GET", "/v1/workspaces/default", "", "Authorization: Basic x").wantError(t, 401, "Invalid credentials")
	s.do("POST", chatPath, "{}", bearer(foreignBearer)).wantError(t, 401, "Invalid credentials")
	s.do("POST", messagesPath, "{}", "X-Api-Key: "+foreignKey, bearer(foreignBearer)).want(t, 401, "authentication_error") // two guesses

	refused := func(what string, r reply, prefix string) {
		t.Helper()
		seconds, err := strconv.Atoi(r.header.Get("Retry-After"))
		if r.status != 429 || !strings.HasPrefix(r.body, prefix) || !strings.Contains(r.body, "Rate limit exceeded") || err != nil || seconds < 1 || seconds > 24*3600/5 {
			t.Errorf("%s: got %d, Retry-After %q, %s", what, r.status, r.header.Get("Retry-After"), r.body)
		}
		if r.header.Get("WWW-Authenticate") != "" || r.header.Get("X-Gateway") != "" {
			t.Errorf("%s: got headers %v", what, r.header)
		}
	}
	const plain = `{"error":{"code":429,`
	refused("a guess", get("a-guess"), plain)
	refused("another scheme", s.do("GET", "/v1/presets", "", "Authorization: Basic x"), plain)
	refused("chat", s.do("POST", chatPath, "{}", bearer(foreignBearer)), plain)
	refused("responses", s.do("POST", responsesPath, "{}", bearer(foreignBearer)), `{"error":{"code":429,"type":"rate_limit_exceeded",`)
	refused("messages", s.do("POST", messagesPath, "{}", "X-Api-Key: "+foreignKey), `{"type":"error","error":{"type":"rate_limit_error",`)
	refused("models", s.do("GET", "/v1/models", "", bearer(foreignBearer)), plain)
	refused("a dry run", s.do("POST", chatPath, "{}", bearer(foreignBearer), "X-Preset-Dry-Run: true"), plain)
	s.upstream.none(t)
	s.do("GET", "/v1/workspaces/default", "").wantError(t, 401, "Missing Authentication header")
	s.do("GET", "/v1/presets/p/nothing/at/all", "", bearer("a-guess")).wantError(t, 404, "")
	for range 3 { // other clients of the address are served, also new ones
		get(issued).want(t, 200)
		get(managementSecret).want(t, 200)
		s.do("POST", chatPath, `{"model":"m"}`, bearer(caller)).want(t, 202)
		s.do("POST", chatPath, `{"model":"m"}`, "X-Api-Key: "+caller, bearer(foreignBearer)).want(t, 202)
		s.do("POST", chatPath, `{"model":"m"}`, bearer(inferenceSecret), "X-Api-Key: "+foreignKey).want(t, 202)
	}
	s.upstream.all()
	send(t, "DELETE", "http://"+s.admin+"/presets/keys/"+revoked.id, "").want(t, 200)
	refused("a key that was revoked", get(revoked.secret), plain)
	refused("again", get(revoked.secret), plain)
	// On other routes a foreign credential is not a failure.
	s.do("GET", "/v1/other", "", bearer(issued)).want(t, 202)
	s.do("GET", "/v1/other", "", bearer(foreignBearer)).want(t, 202)
	if s.upstream.saw(issued) || !s.upstream.saw(foreignBearer) {
		t.Error("the gateway saw our key, or did not see its own")
	}

	for series, want := range map[string]string{`{result="refused"}`: "4", `{result="limited"}`: "9"} {
		if got := s.metric("caddy_presets_auth_failures_total" + series); got != want {
			t.Errorf("%s: got %s, want %s", series, got, want)
		}
	}
	if n := strings.Count(s.logs(), "too many failed authentications"); n != 1 || !strings.Contains(s.logs(), `"address":"127.0.0.1"`) {
		t.Errorf("the log tells %d times of the address, want once", n)
	}
	for _, secret := range []string{issued, caller, revoked.secret, managementSecret, "a-guess", foreignBearer} {
		if strings.Contains(s.logs(), secret) {
			t.Errorf("the log holds %s", secret)
		}
	}
}

// TestFailuresAfterAReload reloads. The counts of failures remain, and a new limit applies
// at once.
func TestFailuresAfterAReload(t *testing.T) {
	s := start(t, limited("3 24h"))
	issued := s.issue(`{"kind":"management"}`).secret
	want := func(status int) {
		t.Helper()
		s.do("GET", "/v1/presets", "", bearer("a-guess")).want(t, status)
	}
	for range 3 {
		want(401)
	}
	want(429)
	s.reload(limited("3 24h"))
	want(429)
	s.do("GET", "/v1/presets", "", bearer(issued)).want(t, 200) // which is not cached
	s.reload(limited("5 24h"))
	want(401)
	want(401)
	want(429)
	s.reload(limited("2 24h"))
	want(429)
	s.reload(limited("off"))
	for range 200 {
		want(401)
	}
}

// TestFailuresOfSitesThatShareAStore checks that all sites of a store share an address's
// count.
func TestFailuresOfSitesThatShareAStore(t *testing.T) {
	s := start(t, limited("3 24h"))
	address := freeAddress(t)
	other := s.siteAt(address, s.presets("management_key other-management-secret\nauth_failure_limit 3 24h"))
	if err := s.load(s.site(limited("3 24h")) + other); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.do("GET", "/v1/presets", "", bearer("a-guess")).want(t, 401)
	}
	send(t, "GET", "http://"+address+"/v1/presets", "", bearer("a-guess")).want(t, 429)
	send(t, "GET", "http://"+address+"/v1/presets", "", bearer(managementSecret)).want(t, 429) // a key of another site
	send(t, "GET", "http://"+address+"/v1/presets", "", bearer("other-management-secret")).want(t, 200)
}

// TestForeignCredentialsAreNoFailures sends foreign credentials with keys optional. The
// gateway judges them, so they do not count as failures.
func TestForeignCredentialsAreNoFailures(t *testing.T) {
	s := start(t, limited("2 24h")+"\ninference {\nkeys optional\n}")
	dead := s.issue(`{"kind":"inference"}`)
	send(t, "DELETE", "http://"+s.admin+"/presets/keys/"+dead.id, "").want(t, 200)
	foreign := func() {
		t.Helper()
		for range 10 {
			r := s.do("POST", chatPath, `{"model":"m"}`, bearer(foreignBearer), "X-Api-Key: "+foreignKey)
			if r.want(t, 202); r.header.Get("Retry-After") != "" {
				t.Errorf("got Retry-After %s with the gateway's answer", r.header.Get("Retry-After"))
			}
		}
	}
	foreign()
	for _, want := range []int{401, 401, 429, 429} {
		s.do("POST", chatPath, `{"model":"m"}`, bearer(dead.secret)).wantError(t, want, "")
	}
	foreign()
	s.do("POST", chatPath, `{"model":"m"}`, bearer(inferenceSecret)).want(t, 202)
	if s.upstream.saw(inferenceSecret) || s.upstream.saw(dead.secret) {
		t.Error("the gateway saw a key of ours")
	}
}

// TestWrongKeysOnOpenRoutes sends keys to a route that needs none. A limited key shows there
// that it works, so a wrong key is a failure. It counts for the limit and in the metric.
func TestWrongKeysOnOpenRoutes(t *testing.T) {
	for _, keys := range []string{keysRequired, keysOptional} {
		s := start(t, limited("2 24h")+"\ninference {\nkeys "+keys+"\n}")
		right := s.issue(`{"kind":"inference","models":["openai/*"]}`).secret
		wrong := right[:len(right)-1] + "_"
		ask := func(status int, headers ...string) {
			t.Helper()
			s.do("POST", "/v1/embeddings", "{}", headers...).want(t, status)
		}
		for range 5 {
			ask(202)
			ask(202, bearer(foreignBearer))
			ask(403, bearer(right))
		}
		for range 5 {
			ask(202, bearer(wrong))
		}
		ask(403, bearer(right)) // also from a limited address
		s.do("GET", "/v1/presets", "", bearer("a-guess")).want(t, 429)
		for result, want := range map[string]string{"refused": "2", "limited": "4"} {
			if got := s.metric(`caddy_presets_auth_failures_total{result="` + result + `"}`); got != want {
				t.Errorf("keys %s: got %s %s, want %s", keys, got, result, want)
			}
		}
	}
}

// TestFailuresBehindAProxy checks that clients behind a trusted proxy are counted
// separately. Addresses that a client adds itself are namelist. Headers from an untrusted
// proxy are ignored too.
func TestFailuresBehindAProxy(t *testing.T) {
	const trusted = "servers {\ntrusted_proxies static 127.0.0.0/8 198.51.100.0/24\n"
	for options, counted := range map[string]bool{"": false, trusted + "}": true, trusted + "trusted_proxies_strict\n}": true, trusted + "client_ip_headers X-Real-Ip X-Forwarded-For\n}": true} {
		s := start(t, standard)
		s.options = options
		s.reload(limited("1 24h"))
		guess := func(status int, forwarded ...string) {
			t.Helper()
			headers := []string{bearer("a-guess")}
			for _, value := range forwarded {
				headers = append(headers, "X-Forwarded-For: "+value)
			}
			if r := exchange(t, s.address, post("/v1/presets/p/responses", "{}", headers...)); r.status != status {
				t.Errorf("with %q: from %q: got %d, want %d", options, forwarded, r.status, status)
			}
		}
		another := 429 // a client that is counted separately
		if counted {
			another = 401
		}
		guess(401, "192.0.2.1")
		guess(429, "192.0.2.1")
		guess(another, "192.0.2.2")
		guess(another, "2001:db8::1")
		guess(429, "2001:db8::2")
		for n := range 5 { // addresses that the client adds itself change nothing
			guess(429, fmt.Sprintf("203.0.113.%d, 192.0.2.1", n))
			guess(429, fmt.Sprintf("203.0.113.%d", n), "192.0.2.1")
			guess(429, fmt.Sprintf("203.0.113.%d, nonsense,, 192.0.2.1:443, 198.51.100.7", n), "127.0.0.1")
		}
		guess(another, "203.0.113.1") // this address was not locked out
		guess(another, "192.0.2.1, 192.0.2.3")
		guess(429, "192.0.2.1, 192.0.2.3")
		guess(another, "198.51.100.1") // all addresses are proxies: the nearest one counts
		guess(429, strings.Repeat("198.51.100.1, ", 10)+"198.51.100.1")
		guess(429)
		for n := range 3 { // any client may have written what is left of an invalid address
			guess(429, fmt.Sprintf("203.0.113.%d, unknown", 50+n))
		}
	}
}

// TestManyForwardedAddresses sends a header with many places for addresses, and then proxies.
// They are read once, not for each proxy.
func TestManyForwardedAddresses(t *testing.T) {
	s := start(t, standard)
	for _, strict := range []string{"", "trusted_proxies_strict\n"} {
		s.options = "servers {\ntrusted_proxies static 127.0.0.0/8\n" + strict + "}"
		s.reload(standard)
		app, err := caddy.ActiveContext().App("http")
		if err != nil {
			t.Fatal(err)
		}
		var server *caddyhttp.Server
		for _, server = range app.(*caddyhttp.App).Servers { // there is one
		}
		allocations := func(places int) float64 {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = "127.0.0.1:1"
			r.Header.Set("X-Forwarded-For", strings.Repeat("unknown,", places)+strings.Repeat("127.0.0.2,", clientip.MaxHops)+"127.0.0.3")
			r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), nil, server)
			if got := originOf(r).String(); got != "127.0.0.2" {
				t.Errorf("got %s, want the address after %d proxies", got, clientip.MaxHops)
			}
			return testing.AllocsPerRun(3, func() { originOf(r) })
		}
		few := allocations(1)
		storagetest.CheckAllocations(t, few+20, func() float64 { return allocations(10_000) })
	}
}

// isLimited reports whether an error is a limiter.Refusal.
func isLimited(err error) bool {
	refused, ok := errors.AsType[*status.Error](err)
	return ok && refused.Status == http.StatusTooManyRequests
}

// TestFailuresWithoutAnAddress checks clients of a Unix socket. They have no address and
// cannot lock each other out.
func TestFailuresWithoutAnAddress(t *testing.T) {
	h := &Handler{shared: newShared(t.Name()), failureLimit: limiter.Limit{Most: 1, Window: time.Minute}, logger: zap.NewNop(), service: domain.NewService(&told{err: domain.ErrNotFound})}
	for remote, limited := range map[string]bool{"@": false, "": false, "192.0.2.1:1": true, "[::1]:1": true} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = remote
		c := &call{h: h, r: r}
		for n := range 5 {
			_, err := c.identify("a-guess")
			if isLimited(err) != (limited && n > 0) {
				t.Errorf("from %q: attempt %d: got %v, want that it is limited: %t", remote, n, err, limited && n > 0)
			}
		}
	}
}

func TestAuthFailureLimitInJSON(t *testing.T) {
	for text, want := range map[string]limiter.Limit{
		``: {Most: 100, Window: time.Minute}, `"auth_failure_limit":-1`: {}, `"auth_failure_limit":7,"auth_failure_window":"1h"`: {Most: 7, Window: time.Hour},
	} {
		h := &Handler{logger: zap.NewNop()}
		if err := json.Unmarshal([]byte("{"+text+"}"), h); err != nil {
			t.Fatal(err)
		}
		if err := h.provisionFailureLimit(); err != nil || h.failureLimit != want {
			t.Errorf("%s: got %v, %v, want %v", text, h.failureLimit, err, want)
		}
	}
}
