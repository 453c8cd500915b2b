package caddymodule

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
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
		{domain.Limits{TokensPerMinute: 24}, "24 tokens per minute", "tokens_per_minute", "tokens"},
	} {
		for _, path := range inferencePaths {
			k := s.limitedKey(domain.KeyLimits{Limits: &of.limits}, "")
			limit, _, _ := strings.Cut(of.what, " ")
			names := [3]string{"X-Ratelimit-Limit-" + of.showing, "X-Ratelimit-Remaining-" + of.showing, "X-Ratelimit-Reset-" + of.showing}
			if path == messagesPath {
				names = [3]string{"Anthropic-Ratelimit-" + of.showing + "-Limit", "Anthropic-Ratelimit-" + of.showing + "-Remaining", "Anthropic-Ratelimit-" + of.showing + "-Reset"}
			}
			for range 2 {
				got := s.as(k, path, `{"model":"m","max_tokens":1,"max_output_tokens":1}`)
				got.want(t, 200)
				if got.header.Get(names[0]) != limit || got.header.Get(names[1]) == "" || got.header.Get(names[2]) == "" {
					t.Errorf("%s of %s: got headers %v, want %v", path, of.what, got.header, names)
				}
			}
			s.upstream.taken()
			got := s.as(k, path, `{"model":"m","max_tokens":1,"max_output_tokens":1}`)
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
			if !s.eventually(s.isReleased) {
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

// TestEstimatesInFlight sends many requests at once. Their estimates count, so that they cannot pass together, whatever steers the
// estimate. Those that are refused may try again, because the limit is not reached.
func TestEstimatesInFlight(t *testing.T) {
	s := start(t, inferring())
	for _, tc := range []struct {
		name, usage, body string
		limits            domain.KeyLimits
		passing           int
	}{
		{"max_tokens", limitsUsage, `{"model":"priced/m","max_tokens":30}`, domain.KeyLimits{Limit: new(100.0)}, 3}, // and a quarter of its bytes
		{"no price", limitsUsage, `{"model":"other/m","max_tokens":3e1}`, domain.KeyLimits{Limit: new(100.0)}, 3},
		{"a dearer fallback", strings.Replace(limitsUsage, "{", "{\nprice cheap/* {\ninput 0\noutput 0\n}", 1), `{"model":"cheap/m","models":["priced/m"],"n":2,"max_tokens":15}`, domain.KeyLimits{Limit: new(100.0)}, 3},
		{"no max_tokens", "usage {\nprice priced/* {\ninput 0\noutput 15\n}\n}", `{"model":"priced/m"}`, domain.KeyLimits{Limit: new(0.5), LimitReset: domain.Daily}, 2}, // of 32,768 tokens, $0.49 each
		{"without usage", "", `{"model":"m","max_tokens":30}`, domain.KeyLimits{Limits: &domain.Limits{TokensPerDay: 100}}, 3},
	} {
		s.reload(inferring(tc.usage))
		k := s.limitedKey(tc.limits, "")
		const most = 50
		events, end := make(chan reply, 2*most), make(chan struct{})
		s.upstream.answers(func(http.ResponseWriter, *http.Request) { events <- reply{}; <-end })
		for range most {
			go func() { events <- s.as(k, chatPath, tc.body) }()
		}
		passed, refused := 0, 0
		for range most {
			switch got := <-events; {
			case got.status == 0:
				passed++
			case got.status == 429 && got.header.Get("Retry-After") == "1" && strings.Contains(got.body, "Requests in flight may"):
				refused++
			}
		}
		close(end)
		if passed != tc.passing || refused != most-tc.passing {
			t.Errorf("%s: %d of %d requests passed and %d were refused, want %d to pass", tc.name, passed, most, refused, tc.passing)
		}
		for range passed {
			(<-events).want(t, 200)
		}
	}
}

// TestDryRunsUnderLimits compares dry runs of streams with what goes upstream: limits of tokens and costs ask for usage.
func TestDryRunsUnderLimits(t *testing.T) {
	s := start(t, inferring(limitsUsage))
	s.costs("0")
	s.preset("plain", `{"model":"m"}`)
	s.preset("limited", `{"model":"m"}`)
	s.manage("PATCH", "/v1/presets/limited", `{"limits":{"tokens_per_day":1000000}}`).want(t, 200)
	s.manage("POST", "/v1/workspaces", `{"name":"Bounded","slug":"bounded"}`).want(t, 201)
	s.manage("PUT", "/v1/workspaces/bounded/budgets/daily", `{"limit_usd":5}`).want(t, 200)
	none := s.limitedKey(domain.KeyLimits{}, "")
	for _, tc := range []struct {
		name  string
		key   issued
		model string
		asks  bool
	}{
		{"no limits", none, "m", false},
		{"no limits, with a preset", none, "@preset/plain", false},
		{"a limit of requests", s.limitedKey(domain.KeyLimits{Limits: &domain.Limits{RequestsPerDay: 100}}, ""), "m", false},
		{"a limit of tokens", s.limitedKey(domain.KeyLimits{Limits: &domain.Limits{TokensPerDay: 1_000_000}}, ""), "m", true},
		{"a limit of costs, with a preset", s.limitedKey(domain.KeyLimits{Limit: new(5.0)}, ""), "@preset/plain", true},
		{"a budget", s.limitedKey(domain.KeyLimits{}, "bounded"), "m", true},
		{"a limit of the preset", none, "@preset/limited", true},
	} {
		for _, options := range []string{"", `,"stream_options":{"include_usage":false,"x":1}`} {
			body := `{"model":"` + tc.model + `","stream":true` + options + `}`
			dry := s.do("POST", chatPath, body, bearer(tc.key.secret), "X-Preset-Dry-Run: true").described(t)
			s.upstream.all()
			s.as(tc.key, chatPath, body).want(t, 200)
			if asked := s.upstream.one(t).body; asked != dry.Data.Body || strings.Contains(asked, `"include_usage":true`) != tc.asks {
				t.Errorf("%s: a dry run shows %s, and the gateway got %s", tc.name, dry.Data.Body, asked)
			}
			if from := dry.Data.Fields["stream_options"].From; tc.asks && from != "server" || !tc.asks && options != "" && from != "request" {
				t.Errorf("%s: stream_options are from %q", tc.name, from)
			}
		}
	}
}

// TestStreamsThatTellNoUsage limits the tokens of streams. Those of chats are asked for their usage. Otherwise
// what passes counts, also if the client leaves or the stream ends with an error. Only an error status without content is free.
func TestStreamsThatTellNoUsage(t *testing.T) {
	s := start(t, inferring())
	const asking = `{"model":"m","stream":true,"max_tokens":1}`
	limited := func(tokens int64) issued {
		return s.limitedKey(domain.KeyLimits{Limits: &domain.Limits{TokensPerDay: tokens}}, "")
	}
	stream := func(status int, body string) { s.upstream.answers(replyWith(status, "text/event-stream", body)) }
	for _, usage := range []string{"usage", ""} {
		s.reload(inferring(usage))
		k := limited(8)
		stream(200, streamContent+streamUsage+streamEnd) // 7 tokens
		s.upstream.all()
		got := s.as(k, chatPath, `{"model":"m","stream":true}`)
		got.want(t, 200)
		if asked := s.upstream.one(t); got.body != streamContent+streamEnd || !strings.Contains(asked.body, `"include_usage":true`) {
			t.Errorf("got %q for %s, want the stream without its usage", got.body, asked.body)
		}
		s.as(k, chatPath, `{"model":"m","stream":true}`).want(t, 200)
		s.as(k, chatPath, `{"model":"m","stream":true}`).want(t, 429, "8 tokens per day")

		const content = 4000
		long := strings.Replace(streamContent, "Hi", strings.Repeat("x", content), 1)
		for _, tc := range []struct {
			name   string
			status int
			body   string
			isFree bool
		}{
			{"no usage", 200, long + streamEnd, false},
			{"an error behind content", 200, long + "data: {\"error\":{\"code\":502}}\n\n", false},
			{"an error status and content", 500, long, false},
			{"an error status", 500, "data: {\"error\":{\"code\":502}}\n\n", true},
		} {
			k := limited(content / 4)
			stream(tc.status, tc.body)
			s.as(k, chatPath, asking).want(t, tc.status)
			if got := s.as(k, chatPath, asking); (got.status == tc.status) != tc.isFree || !tc.isFree && got.status != 429 {
				t.Errorf("%s: got %d for the next request, want that it passes: %t", tc.name, got.status, tc.isFree)
			}
		}
		k = limited(1)
		s.upstream.answers(replyWith(502, "text/html", long))
		for range 3 {
			s.as(k, chatPath, asking).want(t, 502)
		}

		k = limited(content / 4)
		s.upstream.answers(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, long)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		response, err := http.DefaultClient.Do(newRequest(t, "POST", s.url+chatPath, strings.NewReader(asking), bearer(k.secret)))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadFull(response.Body, make([]byte, len(long)))
		response.Body.Close()
		if !s.eventually(func() bool { // the request itself uses nothing
			return strings.Contains(s.as(k, chatPath, `{"model":"@preset/none"}`).body, "Rate limit exceeded: 1000 tokens per day")
		}) {
			t.Error("what passed before its client left does not count")
		}
	}
}

// TestAnswersBoundEstimates has a request that does not bound its answer estimated by earlier answers.
func TestAnswersBoundEstimates(t *testing.T) {
	s := start(t, inferring(limitsUsage))
	s.costs("0")
	k := s.limitedKey(domain.KeyLimits{Limits: &domain.Limits{TokensPerDay: 50_000}}, "")
	s.as(k, chatPath, `{"model":"m"}`).want(t, 200) // 7 and 3 tokens
	const most, fitting = 20, 13                    // of 4,096 tokens and the input each
	events, end := make(chan reply, 2*most), make(chan struct{})
	s.upstream.answers(func(http.ResponseWriter, *http.Request) { events <- reply{}; <-end })
	for range most {
		go func() { events <- s.as(k, chatPath, `{"model":"m"}`) }()
	}
	passed := 0
	for range most {
		if got := <-events; got.status == 0 {
			passed++
		}
	}
	close(end)
	if passed != fitting {
		t.Errorf("%d of %d requests passed at once, want %d", passed, most, fitting)
	}
	for range passed {
		(<-events).want(t, 200)
	}
}

// TestAnswersThatNobodySaw has clients that leave before the answer. Short answers before that do not make them cheap.
func TestAnswersThatNobodySaw(t *testing.T) {
	s := start(t, inferring(limitsUsage))
	s.costs("0")
	k := s.limitedKey(domain.KeyLimits{Limits: &domain.Limits{TokensPerDay: 60_000}}, "")
	s.as(k, chatPath, `{"model":"m"}`).want(t, 200)
	arrived := make(chan struct{})
	s.upstream.answers(func(_ http.ResponseWriter, r *http.Request) { arrived <- struct{}{}; <-r.Context().Done() })
	for range 2 { // of 32,768 tokens
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan struct{})
		request := newRequest(t, "POST", s.url+chatPath, strings.NewReader(`{"model":"m"}`), bearer(k.secret)).WithContext(ctx)
		go func() {
			defer close(left)
			if response, err := http.DefaultClient.Do(request); err == nil {
				response.Body.Close()
			}
		}()
		<-arrived
		leave()
		<-left
	}
	if !s.eventually(func() bool {
		return strings.Contains(s.as(k, chatPath, `{"model":"@preset/none"}`).body, "Rate limit exceeded: 60000 tokens per day")
	}) {
		t.Error("answers that nobody saw hardly count")
	}
}

// TestToldCostIsNoDiscount has a gateway tell that nothing was spent, as some do where a request has prices.
func TestToldCostIsNoDiscount(t *testing.T) {
	s := start(t, inferring(strings.Replace(limitsUsage, "priced/*", "m", 1)))
	s.costs("0")
	k := s.limitedKey(domain.KeyLimits{Limit: new(15.0)}, "")
	s.as(k, chatPath, `{"model":"m","max_tokens":1,"input_cost_per_token":0}`).want(t, 200) // 10 tokens
	s.as(k, chatPath, `{"model":"m","max_tokens":1}`).want(t, 200)
	s.as(k, chatPath, `{"model":"m","max_tokens":1}`).want(t, 403)
}

// TestHiddenCosts has requests and gateways make answers look free. Each counts, so that the next request of its key is refused.
func TestHiddenCosts(t *testing.T) {
	s := start(t, inferring(limitsUsage))
	const ask, chunk = `{"model":"priced/m","stream":true,"max_tokens":3}`, `data: {"model":"priced/m","choices":[{"delta":{"content":"0123456789abcdef"}}]}` + "\n\n"
	answer := func(media, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Litellm-Response-Cost", "0")
			replyWith(200, media, body)(w, r)
		}
	}
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		isFree bool
	}{
		"a model without a price":     {answer("application/json", `{"model":"new","usage":{"prompt_tokens":7,"completion_tokens":3,"cost":0}}`), false},
		"the header, without figures": {answer("application/json", `{"model":"priced/m","choices":[]}`), false},
		"the header of a stream":      {answer("text/event-stream", chunk+streamEnd), false},
		"zeros beside content":        {answer("text/event-stream", chunk+`data: {"usage":{"prompt_tokens":0,"completion_tokens":0}}`+"\n\n"+streamEnd), false},
		"zeros last":                  {answer("text/event-stream", chunk+`data: {"usage":{"prompt_tokens":4,"completion_tokens":1}}`+"\n\n"+`data: {"usage":{"prompt_tokens":0,"completion_tokens":0,"cost":0}}`+"\n\n"+streamEnd), false},
		"an error":                    {answer("application/json", `{"error":{"message":"overloaded"}}`), true},
	} {
		s.upstream.answers(tc.answer)
		k := s.limitedKey(domain.KeyLimits{Limit: new(5.0)}, "")
		if strings.HasPrefix(name, "zeros") {
			k = s.limitedKey(domain.KeyLimits{Limits: &domain.Limits{TokensPerDay: 4}}, "")
		}
		s.as(k, chatPath, ask).want(t, 200)
		if got := s.as(k, chatPath, ask); (got.status == 200) != tc.isFree {
			t.Errorf("%s: got %d for the next request, want that it passes: %t", name, got.status, tc.isFree)
		}
	}
}

// TestRequestsMustBeClear refuses a request under a limit of costs or tokens that a gateway may read in another way. It counts nowhere.
func TestRequestsMustBeClear(t *testing.T) {
	s := start(t, inferring(limitsUsage))
	k, requests := s.limitedKey(domain.KeyLimits{Limit: new(1.0)}, ""), s.limitedKey(domain.KeyLimits{Limits: &domain.Limits{RequestsPerDay: 10}}, "")
	for body, message := range map[string]string{
		`{"model":"priced/m","stream":"true","max_tokens":1}`:                                                             "/stream: must be true or false, because a limit of costs or tokens holds",
		`{"model":"priced/m","max_tokens":1,"max_completion_tokens":"30000"}`:                                             "/max_completion_tokens: must be an integer",
		`{"model":"priced/m","max_tokens":1,"stream":true,"stream":false}`:                                                "/stream: duplicate name",
		`{"model":"priced/m","max_tokens":1,"stream":true,"stream_options":{"include_usage":true,"include_usage":false}}`: "/stream_options: ",
	} {
		s.as(k, chatPath, body).want(t, 400, message)
		s.do("POST", chatPath, body, bearer(k.secret), "X-Preset-Dry-Run: true").want(t, 400, message)
		s.upstream.none(t)
		s.as(requests, chatPath, body).want(t, 202)
		s.upstream.all()
	}
	s.as(k, chatPath, `{"model":"priced/m","max_tokens":1}`).want(t, 202)
}

// TestToldCostEnds has a gateway tell costs that no request has. Each counts as $10,000, and the limit holds.
func TestToldCostEnds(t *testing.T) {
	s := start(t, inferring(limitsUsage))
	s.costs("1e30")
	k := s.limitedKey(domain.KeyLimits{Limit: new(25_000.0)}, "")
	for range 3 {
		s.as(k, chatPath, `{"model":"m","max_tokens":1}`).want(t, 200)
	}
	s.as(k, chatPath, `{"model":"m","max_tokens":1}`).want(t, 403, `"spend_usd":30000`)
	if !strings.Contains(s.logs(), "a cost of a request that no request has") {
		t.Error("the cost was not logged")
	}
}

// TestOneRequestLeavesABudget has a key of a dollar allow an output that costs more than the budget of its workspace, and leave. The
// request does not go up, and the others go on.
func TestOneRequestLeavesABudget(t *testing.T) {
	s := start(t, inferring("usage {\nprice priced/* {\ninput 1\noutput 10\n}\n}"))
	const budget = "/v1/workspaces/default/budgets/monthly"
	s.manage("PUT", budget, `{"limit_usd":10000}`).want(t, 200)
	s.preset("writer", `{"model":"priced/m","max_output_tokens":200000}`)
	k, other := s.limitedKey(domain.KeyLimits{Limit: new(1.0)}, ""), s.limitedKey(domain.KeyLimits{}, "")
	const chat = `{"model":"priced/m","max_tokens":10000000,"n":1024}`
	for range 2 {
		s.as(k, chatPath, chat).want(t, 403, "Key limit exceeded (total limit): the output that this request allows", `"limit_usd":1,"spend_usd":0`)
	}
	s.manage("PUT", budget, `{"limit_usd":1000}`).want(t, 200)
	s.as(other, chatPath, chat).want(t, 403, "Workspace monthly budget of $1000 exceeded: the output that this request allows")
	s.as(k, chatPath, `{"model":"@preset/writer"}`).want(t, 403, "the output that this request allows")
	s.upstream.none(t)
	s.as(other, chatPath, `{"model":"@preset/writer"}`).want(t, 202)
	s.as(k, chatPath, `{"model":"priced/m","max_tokens":100000}`).want(t, 202)
}

// TestBudgetWhileTheStoreIsDamaged holds a budget that was read before a reload.
func TestBudgetWhileTheStoreIsDamaged(t *testing.T) {
	config := inferring(limitsUsage)
	s := start(t, config)
	s.costs("5")
	s.manage("PUT", "/v1/workspaces/default/budgets/monthly", `{"limit_usd":1}`).want(t, 200)
	s.ask(chatPath, `{"model":"m"}`).want(t, 200)
	s.ask(chatPath, `{"model":"m"}`).want(t, 403)
	folder := s.folder
	s.folder = caddytest.Folder(t)
	s.reload(config) // which closes the store
	repair := caddytest.Damage(t, folder)
	s.folder = folder
	s.reload(config)
	s.ask(chatPath, `{"model":"m"}`).want(t, 403, "Workspace monthly budget of $1 exceeded")
	s.do("POST", "/v1/images/generations", `{}`, bearer(inferenceSecret)).want(t, 403)
	repair()
	s.stop()
}

// TestBudgetRoutes sets, reads and removes budgets of a workspace.
func TestBudgetRoutes(t *testing.T) {
	s := start(t, standard)
	const path = "/v1/workspaces/default/budgets"
	s.manage("GET", path, "").want(t, 200, `{"data":[],"include_byok_in_budgets":false,"limit_notice":"limits in US dollars cannot be held`)
	s.manage("GET", path+"/monthly", "").wantError(t, 404, "Budget not found")
	s.manage("DELETE", path+"/monthly", "").want(t, 200, `{"deleted":true}`)
	set := s.manage("PUT", path+"/monthly", `{"limit_usd":100.5}`)
	set.want(t, 200, `"limit_usd":100.5,"reset_interval":"monthly"`, `"include_byok_in_budgets":false`)
	again := s.manage("PUT", path+"/monthly", `{"limit_usd":100.5}`)
	if set.body != again.body {
		t.Errorf("the same budget again: got %s, want %s", again.body, set.body)
	}
	for _, of := range []struct{ interval, body, message string }{
		{"daily", `{"limit_usd":100.5}`, "must be less than the monthly budget of $100.5"},
		{"lifetime", `{"limit_usd":100}`, "must be more than the monthly budget of $100.5"},
		{"weekly", `{"limit_usd":0}`, "/limit_usd"},
		{"weekly", `{}`, "/limit_usd"},
		{"yearly", `{"limit_usd":1}`, "must be daily, weekly, monthly or lifetime"},
	} {
		s.manage("PUT", path+"/"+of.interval, of.body).want(t, 400, of.message)
	}
	s.manage("PUT", path+"/lifetime", `{"limit_usd":1000,"include_byok_in_budgets":true}`).want(t, 200, `"reset_interval":null`, `"include_byok_in_budgets":true`)
	s.manage("PUT", path+"/daily", `{"limit_usd":10}`, "Idempotency-Key: k").want(t, 200)
	s.manage("PUT", path+"/daily", `{"limit_usd":10}`, "Idempotency-Key: k").want(t, 200, `"limit_usd":10`)
	list := s.manage("GET", path, "")
	list.want(t, 200, `"limit_usd":10,"reset_interval":"daily"`, `"limit_usd":100.5,"reset_interval":"monthly"`, `"limit_usd":1000,"reset_interval":null`)
	s.manage("DELETE", path+"/daily", "").want(t, 200, `{"deleted":true}`)
	s.manage("GET", path+"/daily", "").want(t, 404)
	s.ask(path, "").want(t, 405)
	s.do("GET", path, "", bearer(inferenceSecret)).want(t, 403)
}

// TestBudget spends up to budgets of a workspace, whose other workspaces go on. The broadest budget that is used up is told.
func TestBudget(t *testing.T) {
	s := start(t, inferring(limitsUsage))
	s.costs("1")
	s.manage("POST", "/v1/workspaces", `{"name":"other","slug":"other"}`).want(t, 201)
	other := s.limitedKey(domain.KeyLimits{}, "other")
	s.ask(chatPath, `{"model":"m"}`).want(t, 200) // before there is a budget
	const path = "/v1/workspaces/default/budgets"
	s.manage("PUT", path+"/monthly", `{"limit_usd":3}`).want(t, 200)
	s.manage("PUT", path+"/daily", `{"limit_usd":2}`).want(t, 200)
	s.ask(chatPath, `{"model":"m"}`).want(t, 200)
	got := s.ask(messagesPath, `{"model":"m"}`)
	got.want(t, 403, `"message":"Workspace daily budget of $2 exceeded"`, `"type":"permission_error"`, `"limit_source":"openrouter_workspace_budget","scope":"workspace"`)
	if after := got.header.Get("Retry-After"); after != "" {
		t.Errorf("got Retry-After %s, want none", after)
	}
	s.as(other, chatPath, `{"model":"m"}`).want(t, 200)
	s.manage("DELETE", path+"/daily", "").want(t, 200)
	s.ask(chatPath, `{"model":"m"}`).want(t, 200)
	s.ask(chatPath, `{"model":"m"}`).want(t, 403, "Workspace monthly budget of $3 exceeded")
	s.manage("PUT", path+"/monthly", `{"limit_usd":100}`).want(t, 200)
	s.ask(chatPath, `{"model":"m"}`).want(t, 200)
}

// TestDefaultLimits gives a workspace limits for its keys. A key's own limit of the same kind holds instead, and keys count
// apart, also those of the configuration.
func TestDefaultLimits(t *testing.T) {
	s := start(t, inferring(limitsUsage))
	s.costs("0")
	s.manage("PATCH", "/v1/workspaces/default", `{"limits":{"requests_per_minute":1.0},"budgets":{"daily":{"limit_usd":10}}}`).want(t, 200, `"limits":{"requests_per_minute":1}`, `"limit_usd":10,`)
	s.manage("PATCH", "/v1/workspaces/default", `{"budgets":{"hourly":{"limit_usd":1}}}`).want(t, 400, "/budgets/hourly: unknown field")
	s.manage("PATCH", "/v1/workspaces/default", `{"budgets":null}`).want(t, 200)
	s.manage("PATCH", "/v1/workspaces/default", `{"limits":{"requests_per_minute":0}}`).want(t, 400, "/limits/requests_per_minute")
	s.manage("PATCH", "/v1/workspaces/default", `{"limits":{"rpm":1}}`).want(t, 400, "unknown field")
	two := s.limitedKey(domain.KeyLimits{Limits: &domain.Limits{RequestsPerMinute: 2}}, "")
	none := s.limitedKey(domain.KeyLimits{}, "")
	for n := range 3 {
		for i, got := range []reply{s.as(none, chatPath, `{"model":"m"}`), s.as(two, chatPath, `{"model":"m"}`), s.ask(chatPath, `{"model":"m"}`)} {
			if want := [...]int{1, 2, 1}[i]; (got.status == 200) != (n < want) {
				t.Errorf("request %d of key %d: got status %d", n+1, i, got.status)
			}
		}
	}
	s.manage("PATCH", "/v1/workspaces/default", `{"limits":null}`).want(t, 200)
	s.ask(chatPath, `{"model":"m"}`).want(t, 200)
}

// TestConfiguredKeyOfTwoWorkspaces has two sites of a store let one key act in two workspaces. The limit of one holds, also if
// requests to the other site, which has another, come between.
func TestConfiguredKeyOfTwoWorkspaces(t *testing.T) {
	const key = "inference-secret-of-two-workspaces"
	s := start(t, standard)
	other := freeAddress(t)
	in := func(workspace string) string { return inferring() + "\ninference_key " + key + " ann " + workspace }
	if err := s.load(s.site(in("first")) + s.siteAt(other, s.presets(in("second")))); err != nil {
		t.Fatal(err)
	}
	for slug, limits := range map[string]string{"first": `{"requests_per_minute":3}`, "second": `{"requests_per_day":1000}`} {
		s.manage("POST", "/v1/workspaces", `{"name":"`+slug+`","slug":"`+slug+`"}`).want(t, 201)
		s.manage("PATCH", "/v1/workspaces/"+slug, `{"limits":`+limits+`}`).want(t, 200)
	}
	for n := range 6 {
		send(t, "POST", "http://"+other+chatPath, `{"model":"m"}`, bearer(key)).want(t, 202)
		if got := s.do("POST", chatPath, `{"model":"m"}`, bearer(key)); (got.status == 202) != (n < 3) {
			t.Errorf("request %d: got %d", n+1, got.status)
		}
	}
}

// TestPresetLimits stops a preset. Requests for another one, and without one, pass.
func TestPresetLimits(t *testing.T) {
	s := start(t, inferring(limitsUsage))
	s.costs("1")
	s.preset("writer", `{"model":"openai/gpt-5","max_output_tokens":4}`)
	s.preset("other", writer)
	for _, of := range []struct {
		limits, message string
		status          int
	}{
		{`{"requests_per_minute":1}`, "Rate limit exceeded: 1 requests per minute for this preset", 429},
		{`{"tokens_per_day":30}`, "Rate limit exceeded: 30 tokens per day for this preset", 429},
		{`{"cost_per_day":4}`, "Preset daily limit of $4 exceeded", 403},
	} {
		s.manage("PATCH", "/v1/presets/writer", `{"limits":`+of.limits+`}`).want(t, 200, `"limits":`+of.limits)
		s.ask(chatPath, `{"model":"@preset/writer"}`).want(t, 200)
		if of.status == 429 && strings.Contains(of.limits, "tokens") || of.status == 403 {
			s.ask(chatPath, `{"model":"@preset/writer"}`) // 10 tokens and a dollar each
		}
		s.upstream.taken()
		s.ask(chatPath, `{"model":"@preset/writer"}`).want(t, of.status, of.message)
		s.upstream.none(t)
		s.ask(chatPath, `{"model":"@preset/other"}`).want(t, 200)
		s.ask(chatPath, `{"model":"m"}`).want(t, 200)
	}
	s.manage("PATCH", "/v1/presets/writer", `{"limits":{"cost_per_day":0}}`).want(t, 400, "/limits/cost_per_day")
	s.manage("PATCH", "/v1/presets/writer", `{"limits":null}`).want(t, 200)
	s.ask(chatPath, `{"model":"@preset/writer"}`).want(t, 200)
}

// TestLimitsOfOtherRoutes sends requests to routes whose use is not measured. A key with a limit of costs or tokens cannot use them, but
// for the paths that the configuration opens. Other limits count requests there, but for reads.
func TestLimitsOfOtherRoutes(t *testing.T) {
	s := start(t, inferring(limitsUsage, "limited_paths /v1/embeddings"))
	const open, closed = "/v1/embeddings", "/v1/images/edits"
	spending := s.limitedKey(domain.KeyLimits{Limit: new(1.0)}, "")
	s.as(spending, closed, `{"model":"m"}`).want(t, 403, "a limit of costs or tokens")
	s.do("GET", "/v1/files", "", bearer(spending.secret)).want(t, 403, "a limit of costs or tokens")
	s.as(spending, open, `{"model":"m"}`).want(t, 202)
	tokens := s.limitedKey(domain.KeyLimits{Limits: &domain.Limits{TokensPerDay: 4}}, "")
	s.as(tokens, open, `{"model":"0123456789"}`).want(t, 202) // a quarter of its bytes
	s.as(tokens, open, `{"model":"m"}`).want(t, 429, "4 tokens per day")
	requests := s.limitedKey(domain.KeyLimits{Limits: &domain.Limits{RequestsPerMinute: 1}}, "")
	s.do("GET", "/v1/files", "", bearer(requests.secret)).want(t, 202)
	s.as(requests, closed, `{"model":"m"}`).want(t, 202)
	s.as(requests, closed, `{"model":"m"}`).want(t, 429, "1 requests per minute")
	s.as(requests, chatPath, `{"model":"m"}`).want(t, 429, "1 requests per minute")

	unannounced := s.limitedKey(domain.KeyLimits{Limits: &domain.Limits{TokensPerDay: 100}}, "")
	chunked := postChunked(open, `{"input":"`+strings.Repeat("x", 400)+`"}`, nil, bearer(unannounced.secret))
	exchange(t, s.address, chunked).want(t, 202)
	if !s.eventually(func() bool {
		return strings.Contains(exchange(t, s.address, chunked).body, "Rate limit exceeded: 100 tokens per day")
	}) {
		t.Error("a body of unknown length does not count")
	}
}

// TestLimitsOfImageRoutes holds limits of keys, presets and workspaces on the routes for images. An answer without usage counts
// as its estimate at least, and an error is free.
func TestLimitsOfImageRoutes(t *testing.T) {
	s := start(t, inferring(limitsUsage))
	const silent, body = `{"created":1,"data":[{"url":"https://images.test/1.png"}]}`, `{"model":"priced/m","prompt":"a"}`
	const unpriced = `{"model":"m","prompt":"a"}` // so what the gateway tells counts
	openRouter, openAI := `{"data":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,"cost":0.75}}`, `{"data":[],"usage":{"input_tokens":7,"output_tokens":3,"total_tokens":10}}`
	tokens := func(n int64) domain.KeyLimits { return domain.KeyLimits{Limits: &domain.Limits{TokensPerDay: n}} }
	for _, path := range []string{generationsPath, imagesPath} {
		for _, tc := range []struct {
			name, answer string
			limits       domain.KeyLimits
			passing      int
			status       int
			message      string
		}{
			{"requests", openAI, domain.KeyLimits{Limits: &domain.Limits{RequestsPerMinute: 2}}, 2, 429, "Rate limit exceeded: 2 requests per minute"},
			{"cost of the gateway", openRouter, domain.KeyLimits{Limit: new(1.5), LimitReset: domain.Monthly}, 2, 403, "Key limit exceeded (monthly limit)"},
			{"cost of prices", openAI, domain.KeyLimits{Limit: new(20.0)}, 2, 403, "Key limit exceeded (total limit)"},
			{"tokens", openAI, tokens(20), 2, 429, "Rate limit exceeded: 20 tokens per day"},
			{"unknown tokens", silent, tokens(32_768), 1, 429, "Rate limit exceeded: 32768 tokens per day"},
			{"unknown cost", silent, domain.KeyLimits{Limit: new(10_000.0)}, 1, 403, "Key limit exceeded (total limit)"},
		} {
			s.upstream.answers(replyWith(400, "application/json", `{"error":{"message":"no"}}`))
			k, body := s.limitedKey(tc.limits, ""), body
			if tc.answer == openRouter {
				body = unpriced
			}
			if tc.name != "requests" {
				s.as(k, path, body).want(t, 400)
			}
			s.upstream.answers(replyWith(200, "application/json", tc.answer))
			for range tc.passing {
				s.as(k, path, body).want(t, 200)
			}
			s.upstream.taken()
			got := s.as(k, path, body)
			got.want(t, tc.status, `{"error":{"code":`, tc.message)
			if s.upstream.none(t); t.Failed() {
				t.Fatalf("%s, %s: got %s", path, tc.name, got.body)
			}
		}
	}

	s.preset("poster", `{"model":"priced/m"}`)
	s.manage("PATCH", "/v1/presets/poster", `{"limits":{"requests_per_minute":1}}`).want(t, 200)
	s.ask(imagesPath, `{"model":"@preset/poster","prompt":"a"}`).want(t, 200)
	s.ask(generationsPath, `{"model":"@preset/poster","prompt":"a"}`).want(t, 429, "1 requests per minute")
	s.upstream.answers(replyWith(200, "application/json", openRouter))
	s.manage("POST", "/v1/workspaces", `{"name":"other","slug":"other"}`).want(t, 201)
	other := s.limitedKey(domain.KeyLimits{}, "other")
	s.manage("PUT", "/v1/workspaces/other/budgets/daily", `{"limit_usd":0.75}`).want(t, 200)
	s.as(other, imagesPath, unpriced).want(t, 200)
	s.as(other, generationsPath, unpriced).want(t, 403, "Workspace daily budget of $0.75 exceeded", `"scope":"workspace"`)
}

// TestWorkspaceLimitsOfOtherRoutes closes routes whose use is not measured to the keys of a workspace with a budget or a limit of
// tokens, and to what strangers send there.
func TestWorkspaceLimitsOfOtherRoutes(t *testing.T) {
	s := start(t, inferring(limitsUsage, "keys required", "limited_paths /v1/embeddings"))
	const open, closed = "/v1/embeddings", "/v1/completions"
	k := s.limitedKey(domain.KeyLimits{}, "")
	check := func(isOpen bool) {
		t.Helper()
		for _, headers := range [][]string{{bearer(k.secret)}, {bearer(inferenceSecret)}, nil} {
			status := map[bool]int{true: 202, false: 403}[isOpen]
			s.do("POST", closed, `{"model":"m"}`, headers...).want(t, status)
			s.do("POST", open, `{"model":"m"}`, headers...).want(t, 202)
			if headers == nil {
				status = 202
			}
			s.do("GET", "/v1/files", "", headers...).want(t, status)
		}
	}
	check(true)
	const budget = "/v1/workspaces/default/budgets/monthly"
	s.manage("PUT", budget, `{"limit_usd":3}`).want(t, 200)
	check(false)
	s.do("POST", closed, "{}", bearer(k.secret)).want(t, 403, "a workspace with a budget or a limit of tokens")
	s.manage("DELETE", budget, "").want(t, 200)
	s.manage("PATCH", "/v1/workspaces/default", `{"limits":{"tokens_per_day":1000}}`).want(t, 200)
	check(false)
	s.manage("PATCH", "/v1/workspaces/default", `{"limits":{"requests_per_day":1000}}`).want(t, 200)
	check(true)
}

// TestLimitsOfCounting counts the requests that count tokens.
func TestLimitsOfCounting(t *testing.T) {
	s := start(t, inferring(limitsUsage))
	k := s.limitedKey(domain.KeyLimits{Limits: &domain.Limits{RequestsPerDay: 1, TokensPerDay: 1}}, "")
	got := s.as(k, countMessagesPath, `{"model":"m"}`)
	got.want(t, 202)
	if got.header.Get("Anthropic-Ratelimit-Requests-Remaining") != "0" || got.header.Get("Anthropic-Ratelimit-Tokens-Remaining") != "1" {
		t.Errorf("got headers %v, want no requests remaining", got.header)
	}
	s.as(k, countMessagesPath, `{"model":"m"}`).want(t, 429, "1 requests per day")
}

// TestRateHeaders replaces the rate headers of the gateway on all routes, for keys with limits of requests or tokens.
func TestRateHeaders(t *testing.T) {
	s := start(t, inferring(limitsUsage))
	names := []string{"X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Tokens", "Anthropic-Ratelimit-Requests-Limit"}
	s.upstream.answers(func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range names {
			w.Header().Set(name, "999")
		}
	})
	limited, free := s.limitedKey(domain.KeyLimits{Limits: &domain.Limits{RequestsPerDay: 50}}, ""), s.limitedKey(domain.KeyLimits{}, "")
	for path, ours := range map[string]int{"/v1/embeddings": 0, chatPath: 0, messagesPath: 2} {
		got := s.as(limited, path, `{"model":"m"}`)
		for i, name := range names {
			if want := map[bool]string{true: "50"}[i == ours]; got.header.Get(name) != want {
				t.Errorf("%s: got %s: %q, want %q", path, name, got.header.Get(name), want)
			}
			if got := s.as(free, path, `{"model":"m"}`).header.Get(name); got != "999" {
				t.Errorf("%s without limits: got %s: %q, want that of the gateway", path, name, got)
			}
		}
	}
}

// TestRefusalsInReports compares the reports of a workspace and the metric of its budget with what was refused and spent.
func TestRefusalsInReports(t *testing.T) {
	s := start(t, inferring(limitsUsage))
	s.costs("1")
	w := s.manage("PUT", "/v1/workspaces/default/budgets/weekly", `{"limit_usd":4}`).field(t, "workspace_id")
	k := s.limitedKey(domain.KeyLimits{Limits: &domain.Limits{RequestsPerDay: 1}}, "")
	s.as(k, chatPath, `{"model":"m"}`).want(t, 200)
	for range 2 {
		s.as(k, chatPath, `{"model":"m"}`).want(t, 429)
	}
	s.storeUsage()
	s.manage("GET", "/v1/workspaces/default/usage?by=key", "").want(t, 200, `"key":{"key":"`+k.id+`"},"total":{"requests":1,`, `"refused":2`)
	if got := s.metric(`caddy_presets_budget_used_ratio{interval="weekly",store="` + s.canonicalFolder() + `",workspace="` + w + `"}`); got != "0.25" {
		t.Errorf("got a share of %s of the budget, want 0.25", got)
	}
}

// TestMoneyNotHeld starts with a limit in US dollars, without prices, and then without usage.
func TestMoneyNotHeld(t *testing.T) {
	s := start(t, inferring("usage"))
	k := s.limitedKey(domain.KeyLimits{Limit: new(1.0)}, "")
	s.costs("null")
	s.as(k, chatPath, `{"model":"m"}`).want(t, 200)
	if !strings.Contains(s.logs(), "counts as free against limits in US dollars") {
		t.Error("a request without a cost was not logged")
	}
	s.reload(inferring("usage") + "\nkey_api")
	s.do("GET", "/v1/key", "", bearer(k.secret)).want(t, 200, `"limit_notice":"limits in US dollars cannot be held, because no prices`)
	if !strings.Contains(s.logs(), "no prices are configured and the gateway has not told a cost") {
		t.Error("the reload did not warn of the limit")
	}
	s.reload(inferring())
	if !strings.Contains(s.logs(), "the server's configuration has no usage block") {
		t.Error("the reload without usage did not warn of the limit")
	}
	s.reload(inferring(limitsUsage))
	if why := s.handler().moneyNotHeld(); why != "" {
		t.Errorf("with prices: got %q", why)
	}
}
