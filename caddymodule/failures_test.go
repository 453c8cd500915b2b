package caddymodule

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-presets/caddy-presets/domain"
)

// limited is standard with another limit.
func limited(limit string) string {
	return strings.Replace(standard, "auth_failure_limit 1000000", "auth_failure_limit "+limit, 1)
}

// newTimedFailures returns failures with a clock that only moves by hand, and what
// they log.
func newTimedFailures(limit int, window time.Duration) (f *failures, clock *time.Duration, logs *observer.ObservedLogs) {
	core, logs := observer.New(zap.DebugLevel)
	f = newFailures(limit, window, zap.New(core))
	clock = new(time.Duration)
	*clock = time.Hour
	f.now = func() time.Duration { return *clock }
	return f, clock, logs
}

// v4 is one IPv4 address of many.
func v4(n int) origin {
	return origin{10: 0xff, 0xff, byte(1 + n>>24), byte(n >> 16), byte(n >> 8), byte(n)}
}

// fail guesses once and is wrong, if a guess is allowed. It returns how long it has to
// wait otherwise.
func (f *failures) fail(from origin) (wait time.Duration) {
	if limited, is := errors.AsType[*limitError](f.take(context.Background(), from)); is {
		return limited.wait
	}
	f.end(from, true)
	return 0
}

func TestFailureBucket(t *testing.T) {
	f, clock, _ := newTimedFailures(3, 30*time.Second) // a token each 10 s
	wants := func(from origin, want time.Duration) {
		t.Helper()
		if got := f.fail(from); got != want {
			t.Errorf("at %s: got a wait of %s, want %s", *clock, got, want)
		}
	}
	a, b := v4(1), v4(2)
	for range 3 {
		wants(a, 0)
	}
	wants(a, 10*time.Second)
	wants(a, 10*time.Second) // refused, and not counted
	for range 3 {
		wants(b, 0) // another's
	}
	*clock += 4 * time.Second
	wants(a, 6*time.Second)
	*clock += 6 * time.Second
	wants(a, 0)
	wants(a, 10*time.Second)
	*clock += time.Hour // no more than the limit is saved up
	for range 3 {
		wants(a, 0)
	}
	wants(a, 10*time.Second)
	for wait, want := range map[time.Duration]int{1: 1, time.Second: 1, time.Second + 1: 2, 90 * time.Second: 90} {
		if got := (&limitError{wait}).retryAfter(); got != want {
			t.Errorf("%s: got Retry-After %d, want %d", wait, got, want)
		}
	}
}

// Guesses at once are no more than guesses one after another.
func TestFailuresAtOnce(t *testing.T) {
	f, _, _ := newTimedFailures(100, time.Minute)
	var allowed atomic.Int32
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			if f.fail(v4(1)) == 0 {
				allowed.Add(1)
			}
		})
	}
	if wg.Wait(); allowed.Load() != 100 {
		t.Errorf("got %d attempts, want 100", allowed.Load())
	}
	if len(f.pending) != 0 {
		t.Errorf("%d addresses are kept of what is over", len(f.pending))
	}
}

// Right keys at once are all looked up, however many, also if each is new there; and
// no more of them than the limit at a time.
func TestSuccessesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, _ := newTimedFailures(10, time.Minute)
		var now, most, done atomic.Int32
		for range 1000 {
			go func() {
				if err := f.take(t.Context(), v4(1)); err != nil {
					t.Error(err)
					return
				}
				n := now.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				time.Sleep(time.Millisecond)
				now.Add(-1)
				f.end(v4(1), false)
				done.Add(1)
			}()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if done.Load() != 1000 || most.Load() != 10 {
			t.Errorf("got %d of 1000 answers, %d at once, want all, 10 at once", done.Load(), most.Load())
		}
	})
}

// Who waits for the keys that are looked up before goes as soon as its client does, and
// is refused when all were wrong.
func TestWaitingForLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, _ := newTimedFailures(1, time.Minute)
		if err := f.take(t.Context(), v4(1)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone, refused := make(chan error, 1), make(chan error, 1)
		go func() { gone <- f.take(ctx, v4(1)) }()
		go func() { refused <- f.take(t.Context(), v4(1)) }()
		synctest.Wait()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that the client is gone", err)
		}
		f.end(v4(1), true)
		if _, limited := errors.AsType[*limitError](<-refused); !limited {
			t.Error("it is not refused after all were wrong")
		}
	})
}

func TestOrigin(t *testing.T) {
	of := func(remote string) origin {
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

// However many addresses others come from, one that fails again and again is not
// forgotten, and nobody new is refused. All that costs no memory.
func TestFailuresOfABotnet(t *testing.T) {
	f, _, _ := newTimedFailures(100, time.Minute)
	if size := unsafe.Sizeof(*f) + unsafe.Sizeof(*f.worked); size > 660<<10 {
		t.Errorf("got %d bytes, want at most 660 KiB", size)
	}
	attacker := v4(1)
	for range 100 {
		f.fail(attacker)
	}
	for n := range 500_000 { // thirty times as many as there is room for, at once
		if f.fail(v4(1000+n)) > 0 {
			t.Fatalf("address %d is refused at its first attempt", n)
		}
		if n%1000 == 0 && f.fail(attacker) == 0 {
			t.Fatalf("after %d addresses the attacker has an attempt more", n)
		}
	}
	if allocs := testing.AllocsPerRun(1000, func() { f.fail(v4(5)) }); allocs > 0 {
		t.Errorf("got %g allocations, want none", allocs)
	}
}

func TestWorkedKeys(t *testing.T) {
	f, _, _ := newTimedFailures(1, time.Minute)
	key := func(n int) domain.KeyHash { return sha256.Sum256([]byte(strconv.Itoa(n))) }
	const pairs = failureSets // a quarter of the room
	for n := range pairs {
		if f.hasWorked(v4(n), key(n)) {
			t.Fatal("a key has worked that was not used")
		}
		f.remember(v4(n), key(n))
		if !f.hasWorked(v4(n), key(n)) || f.hasWorked(v4(n+1), key(n)) || f.hasWorked(v4(n), key(n+1)) {
			t.Fatalf("pair %d is not remembered as it is", n)
		}
	}
	kept := 0
	for n := range pairs {
		if f.hasWorked(v4(n), key(n)) {
			kept++
		}
		f.forget(v4(n), key(n))
		if f.hasWorked(v4(n), key(n)) {
			t.Fatalf("pair %d is not forgotten", n)
		}
	}
	if kept < pairs*99/100 {
		t.Errorf("got %d of %d pairs, want nearly all", kept, pairs)
	}
}

// The log tells once of an address, and of a flood of them no more than once a
// second.
func TestFailuresInTheLog(t *testing.T) {
	f, clock, logs := newTimedFailures(2, 20*time.Second)
	for range 100 {
		f.fail(v4(7))
		*clock += 3 * time.Second // it gets an attempt now and then, and is never at rest
	}
	entries := logs.TakeAll()
	if len(entries) != 1 || entries[0].ContextMap()["address"] != v4(7).String() {
		t.Errorf("got %v, want one line with the address", entries)
	}
	*clock += time.Minute // at rest
	for range 5 {
		f.fail(v4(7))
	}
	if n := len(logs.TakeAll()); n != 1 {
		t.Errorf("after a pause: got %d lines, want one", n)
	}
	*clock += time.Minute
	for n := range 1000 {
		for range 3 {
			f.fail(v4(n))
		}
	}
	*clock += time.Second
	for range 3 {
		f.fail(v4(5000))
	}
	entries = logs.TakeAll()
	if len(entries) != 2 || entries[1].ContextMap()["others_since_last_told"] != int64(999) {
		t.Errorf("a flood: got %v, want two lines, the second with 999 others", entries)
	}
}

// An address that fails too often gets 429 in each dialect's envelope, whatever
// key it sends, but for those that have worked from there.
func TestAuthFailureLimit(t *testing.T) {
	s := start(t, standard)
	known, issued := s.issue(`{"kind":"management"}`).secret, s.issue(`{"kind":"management"}`).secret
	caller := s.issue(`{"kind":"inference"}`).secret
	revoked := s.issue(`{"kind":"management"}`)
	s.reload(limited("5 24h") + "\ninference {\nkeys required\nlist_models on\n}")
	get := func(secret string) response { return s.do("GET", "/v1/workspaces/default", "", bearer(secret)) }

	get(known).want(t, 200)
	s.do("POST", chatPath, `{"model":"m"}`, "X-Api-Key: "+caller).want(t, 202)
	get(revoked.secret).want(t, 200)
	s.upstream.all()
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

	refused := func(what string, r response, prefix string) {
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
	refused("a right key", get(issued), plain)
	refused("a configured key", get(managementSecret), plain)
	refused("another scheme", s.do("GET", "/v1/presets", "", "Authorization: Basic x"), plain)
	refused("chat", s.do("POST", chatPath, "{}", bearer(foreignBearer)), plain)
	refused("responses", s.do("POST", responsesPath, "{}", bearer(inferenceSecret)), `{"error":{"code":"rate_limit_exceeded",`)
	refused("messages", s.do("POST", messagesPath, "{}", "X-Api-Key: "+foreignKey), `{"type":"error","error":{"type":"rate_limit_error",`)
	refused("models", s.do("GET", "/v1/models", "", bearer(foreignBearer)), plain)
	refused("a dry run", s.do("POST", chatPath, "{}", bearer(foreignBearer), "X-Preset-Dry-Run: true"), plain)
	s.upstream.none(t)
	s.do("GET", "/v1/workspaces/default", "").wantError(t, 401, "Missing Authentication header")
	s.do("GET", "/v1/presets/p/nothing/at/all", "", bearer("a-guess")).wantError(t, 404, "")
	for range 3 { // the others behind the address go on
		get(known).want(t, 200)
		s.do("POST", chatPath, `{"model":"m"}`, bearer(caller)).want(t, 202)
		s.do("POST", chatPath, `{"model":"m"}`, bearer(caller), "X-Api-Key: "+foreignKey).want(t, 202)
	}
	s.upstream.all()
	send(t, "DELETE", "http://"+s.admin+"/presets/keys/"+revoked.id, "").want(t, 200)
	refused("a key that worked, and was revoked", get(revoked.secret), plain)
	refused("again", get(revoked.secret), plain)
	// On other routes a key is stripped without being authenticated, and other
	// credentials pass.
	s.do("GET", "/v1/other", "", bearer(issued)).want(t, 202)
	s.do("GET", "/v1/other", "", bearer(foreignBearer)).want(t, 202)
	if s.upstream.saw(issued) || !s.upstream.saw(foreignBearer) {
		t.Error("the gateway saw our key, or did not see its own")
	}

	for series, want := range map[string]string{`{result="refused"}`: "4", `{result="limited"}`: "11"} {
		if got := s.metric("caddy_presets_auth_failures_total" + series); got != want {
			t.Errorf("%s: got %s, want %s", series, got, want)
		}
	}
	if n := strings.Count(s.logs(), "too many failed authentications"); n != 1 || !strings.Contains(s.logs(), `"address":"127.0.0.1"`) {
		t.Errorf("the log tells %d times of the address, want once", n)
	}
	for _, secret := range []string{known, issued, caller, revoked.secret, managementSecret, "a-guess", foreignBearer} {
		if strings.Contains(s.logs(), secret) {
			t.Errorf("the log holds %s", secret)
		}
	}

	s.reload(limited("5 24h")) // begins anew, but for what has worked
	for range 5 {
		get("a-guess").want(t, 401)
	}
	refused("a guess after a reload", get("a-guess"), plain)
	get(known).want(t, 200)
	s.reload(limited("5 24h"))
	get(issued).want(t, 200)
	get("a-guess").want(t, 401)
	s.reload(limited("off"))
	for range 200 {
		get("a-guess").want(t, 401)
	}
}

// With keys optional a foreign credential is the gateway's to judge, not a failure.
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
	s.do("POST", chatPath, `{"model":"m"}`, bearer(inferenceSecret)).wantError(t, 429, "")
	if s.upstream.saw(inferenceSecret) || s.upstream.saw(dead.secret) {
		t.Error("the gateway saw a key of ours")
	}
}

// Behind a proxy that is trusted each client counts for itself; whoever is not
// trusted says nothing about where they are.
func TestFailuresBehindAProxy(t *testing.T) {
	for options, want := range map[string]int{"servers {\ntrusted_proxies static 127.0.0.0/8\n}": 401, "": 429} {
		s := start(t, standard)
		s.options = options
		s.reload(limited("1 24h"))
		s.do("GET", "/v1/presets", "", bearer("a-guess"), "X-Forwarded-For: 192.0.2.1").want(t, 401)
		s.do("GET", "/v1/presets", "", bearer("a-guess"), "X-Forwarded-For: 192.0.2.1").want(t, 429)
		s.do("GET", "/v1/presets", "", bearer("a-guess"), "X-Forwarded-For: 192.0.2.2").want(t, want)
		s.do("GET", "/v1/presets", "", bearer("a-guess"), "X-Forwarded-For: 2001:db8::1").want(t, want)
		s.do("GET", "/v1/presets", "", bearer("a-guess"), "X-Forwarded-For: 2001:db8::2").want(t, 429)
	}
}

// Clients of a Unix socket have no address, and cannot lock each other out.
func TestFailuresWithoutAnAddress(t *testing.T) {
	h := &Handler{failures: newFailures(1, time.Minute, zap.NewNop()), service: domain.NewService(&told{err: domain.ErrNotFound})}
	for remote, limited := range map[string]bool{"@": false, "": false, "192.0.2.1:1": true} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = remote
		c := &call{h: h, r: r}
		for n := range 5 {
			_, err := c.identify("a-guess")
			if _, is := errors.AsType[*limitError](err); is != (limited && n > 0) {
				t.Errorf("from %q: attempt %d: got %v, want that it is limited: %t", remote, n, err, limited && n > 0)
			}
		}
	}
}

func TestAuthFailureLimitInJSON(t *testing.T) {
	for text, problem := range map[string]string{
		``: "", `"auth_failure_limit":-1`: "", `"auth_failure_limit":7,"auth_failure_window":"1h"`: "",
		`"auth_failure_limit":-2`: "from 1 to 1000000", `"auth_failure_limit":1000001`: "from 1 to 1000000",
		`"auth_failure_window":"10ms"`: "from 1s to", `"auth_failure_window":"25h"`: "from 1s to", `"auth_failure_window":-1`: "from 1s to",
	} {
		h := &Handler{logger: zap.NewNop()}
		if err := json.Unmarshal([]byte("{"+text+"}"), h); err != nil {
			t.Fatal(err)
		}
		err := h.provisionFailures()
		if problem == "" && err != nil || problem != "" && (err == nil || !strings.Contains(err.Error(), problem)) {
			t.Errorf("%s: got %v, want %q", text, err, problem)
		}
		switch {
		case text == "" && (h.failures == nil || h.failures.limit != 100 || h.failures.each != 600*time.Millisecond || h.AuthFailureWindow != caddy.Duration(time.Minute)):
			t.Errorf("got %d in %s by default", h.AuthFailureLimit, time.Duration(h.AuthFailureWindow))
		case strings.HasSuffix(text, ":-1") && problem == "" && h.failures != nil:
			t.Error("it is not off")
		}
	}
}

// What a request pays for the limit: of a key that works, of one that does not, and
// beyond the limit.
func BenchmarkFailures(b *testing.B) {
	f, _, _ := newTimedFailures(100, time.Minute)
	key := domain.HashSecret(managementSecret)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	f.remember(originOf(r), key)
	b.Run("a key that works", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !f.hasWorked(originOf(r), key) {
				b.Fatal("it does not")
			}
		}
	})
	b.Run("a key that works, on all processors", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_ = f.hasWorked(originOf(r), key)
			}
		})
	})
	b.Run("a failure", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f.fail(origin{byte(rand.IntN(256)), byte(rand.IntN(256)), 9: 1})
		}
	})
}
