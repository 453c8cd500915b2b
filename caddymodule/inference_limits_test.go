package caddymodule

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// limitedKey issues an inference key with limits, which acts in a workspace.
func (s *server) limitedKey(limits domain.KeyLimits, workspace string) issued {
	s.t.Helper()
	k, secret, err := liveUse(s.canonicalFolder()).Service.IssueKey(s.t.Context(), operator, domain.NewKey{Kind: domain.InferenceKey, KeyLimits: limits, Workspace: workspace})
	if err != nil {
		s.t.Fatal(err)
	}
	return issued{k.ID, secret}
}

// as sends an inference request with an issued key.
func (s *server) as(k issued, path, body string) reply {
	s.t.Helper()
	return s.do("POST", path, body, bearer(k.secret))
}

const limitsUsage = "usage {\nprice priced/* {\ninput 1000000\noutput 1000000\n}\n}" // a dollar a token

// costs makes the gateway answer that a request cost so many dollars, and used 10 tokens.
func (s *server) costs(usd string) {
	s.upstream.answers(replyWith(200, "application/json", `{"model":"m","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"input_tokens":7,"output_tokens":3,"cost":`+usd+`}}`))
}

// TestRateLimits checks the limits of requests and tokens of a key in the dialects of all routes. A request
// beyond them does not reach the gateway, and its body is not read.
func TestRateLimits(t *testing.T) {
	s := start(t, inferring(limitsUsage))
	s.costs("0")
	for _, of := range []struct {
		limits              domain.Limits
		what, kind, showing string
	}{
		{domain.Limits{RequestsPerMinute: 2}, "2 requests per minute", "requests_per_minute", "requests"},
		{domain.Limits{RequestsPerDay: 2}, "2 requests per day", "requests_per_day", "requests"},
		{domain.Limits{TokensPerDay: 20}, "20 tokens per day", "tokens_per_day", "tokens"},
		{domain.Limits{TokensPerMinute: 20}, "20 tokens per minute", "tokens_per_minute", "tokens"},
	} {
		for _, path := range inferencePaths {
			k := s.limitedKey(domain.KeyLimits{Limits: &of.limits}, "")
			limit, _, _ := strings.Cut(of.what, " ")
			names := [3]string{"X-Ratelimit-Limit-" + of.showing, "X-Ratelimit-Remaining-" + of.showing, "X-Ratelimit-Reset-" + of.showing}
			if path == messagesPath {
				names = [3]string{"Anthropic-Ratelimit-" + of.showing + "-Limit", "Anthropic-Ratelimit-" + of.showing + "-Remaining", "Anthropic-Ratelimit-" + of.showing + "-Reset"}
			}
			for range 2 {
				got := s.as(k, path, `{"model":"m","max_tokens":1}`)
				got.want(t, 200)
				if got.header.Get(names[0]) != limit || got.header.Get(names[1]) == "" || got.header.Get(names[2]) == "" {
					t.Errorf("%s of %s: got headers %v, want %v", path, of.what, got.header, names)
				}
			}
			s.upstream.taken()
			got := s.as(k, path, `{"model":"m","max_tokens":1}`)
			got.want(t, 429, "Rate limit exceeded: "+of.what+" for this key")
			if left := got.header.Get(names[1]); left != "0" && of.kind != "tokens_per_minute" || got.header.Get("Retry-After") == "" {
				t.Errorf("%s beyond %s: got headers %v, want none remaining and Retry-After", path, of.what, got.header)
			}
			s.upstream.none(t)
		}
		if got := s.metric(`caddy_presets_limit_refusals_total{kind="` + of.kind + `",scope="key"}`); got != "3" {
			t.Errorf("%s: got %s refusals, want 3", of.kind, got)
		}
	}
	free := s.ask(chatPath, `{"model":"m"}`)
	free.want(t, 200)
	if got := free.header.Get("X-Ratelimit-Limit-Requests"); got != "" {
		t.Errorf("a key without limits: got a limit of %s", got)
	}
}

// TestConcurrentLimit has a request in flight, beside which another of the same key is refused. The next one
// passes, also after a request that is a mistake or fails.
func TestConcurrentLimit(t *testing.T) {
	s := start(t, inferring(limitsUsage))
	k := s.limitedKey(domain.KeyLimits{Limits: &domain.Limits{Concurrent: 1}}, "")
	begun, end := make(chan struct{}), make(chan struct{})
	s.upstream.answers(func(http.ResponseWriter, *http.Request) { begun <- struct{}{}; <-end })
	var wait sync.WaitGroup
	wait.Go(func() { s.as(k, chatPath, `{"model":"m"}`).want(t, 200) })
	<-begun
	got := s.as(k, chatPath, `{"model":"m"}`)
	got.want(t, 429, "1 concurrent requests")
	if got.header.Get("Retry-After") != "1" {
		t.Errorf("got Retry-After %q, want 1", got.header.Get("Retry-After"))
	}
	close(end)
	wait.Wait()
	s.as(k, chatPath, `{"model":"@preset/none"}`).want(t, 404)
	s.upstream.answers(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	s.as(k, chatPath, `{"model":"m"}`).want(t, 502)
	s.costs("0")
	if !s.eventually(func() bool { return s.as(k, chatPath, `{"model":"m"}`).status == 200 }) {
		t.Error("the place of a request that has ended is not free")
	}
}

// TestSpendingLimit checks the limit of a key in US dollars: its error in all dialects, its event, and that what was spent
// outlives a reload and a restart.
func TestSpendingLimit(t *testing.T) {
	s := start(t, inferring(limitsUsage))
	s.costs("0.75")
	k := s.limitedKey(domain.KeyLimits{Limit: new(1.5), LimitReset: domain.Monthly}, "")
	total := s.limitedKey(domain.KeyLimits{Limit: new(0.0)}, "")
	s.as(k, chatPath, `{"model":"m"}`).want(t, 200)
	s.reload(inferring(limitsUsage))
	s.costs("0.75")
	s.as(k, chatPath, `{"model":"m"}`).want(t, 200)
	_, resets := domain.Monthly.Window(time.Now())
	for round := range 2 {
		for _, path := range inferencePaths {
			s.upstream.taken()
			got := s.as(k, path, `{"model":"m"}`)
			got.want(t, 403, `"message":"Key limit exceeded (monthly limit)"`)
			s.upstream.none(t)
			var body struct {
				Error    struct{ Metadata map[string]any }
				Metadata map[string]any
			}
			if err := json.Unmarshal([]byte(got.body), &body); err != nil {
				t.Fatal(err)
			}
			about := body.Metadata
			if path == chatPath {
				about = body.Error.Metadata
			}
			if about["limit_source"] != "openrouter_key_limit" || about["scope"] != "key" || about["limit_usd"] != 1.5 || about["spend_usd"] != 1.5 || about["resets_at"] != resets.Format(time.RFC3339) {
				t.Errorf("%s: got %s, want the metadata of the limit", path, got.body)
			}
		}
		s.as(total, chatPath, `{"model":"m"}`).want(t, 403, "Key limit exceeded (total limit)", `"resets_at":null`)
		if round == 0 {
			s.stop()
			if !s.isReleased() {
				t.Fatal("the store is not released")
			}
			s.reload(inferring(limitsUsage))
		}
	}
	told := func() (n int) {
		for _, r := range s.trail("").Records {
			if r.Operation == "key.limit_reached" && r.Object.ID == k.id {
				n++
			}
		}
		return n
	}
	if !s.eventually(func() bool { return told() == 1 }) {
		t.Errorf("the limit was told %d times, want once", told())
	}
}

// TestSpendingInFlight sends many requests at once. Their estimates count, so that they cannot pass together.
func TestSpendingInFlight(t *testing.T) {
	s := start(t, inferring(limitsUsage))
	k := s.limitedKey(domain.KeyLimits{Limit: new(100.0), LimitReset: domain.Daily}, "")
	end := make(chan struct{})
	s.upstream.answers(func(http.ResponseWriter, *http.Request) { <-end })
	const most = 50
	statuses := make(chan int, most)
	for range most {
		go func() { statuses <- s.as(k, chatPath, `{"model":"priced/m","max_tokens":30}`).status }()
	}
	refused := 0
	for range most - 3 { // each is estimated with 30 tokens, and a quarter of its 39 bytes
		if <-statuses == 403 {
			refused++
		}
	}
	close(end)
	if refused != most-3 {
		t.Errorf("%d of %d requests were refused, want all but 3", refused, most)
	}
}
