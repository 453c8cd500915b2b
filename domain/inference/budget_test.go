package inference_test

import (
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// TestBudgets compares the allocations of operations, with warm caches, with those at the
// time of writing, plus a quarter.
func TestBudgets(t *testing.T) {
	tier.NoRace(t)
	r := newResolving(t)
	r.put(t, r.home.ID, "p", version{responses, benchConfig[responses], "Answer briefly."})
	r.putTemplate(t, "t", responses, `{"model":"m","instructions":"In {{a}}, for {{b}}.","input":"Where is {{c}}? Tell {{a}}."}`)
	r.ruled(t, "ruled", version{responses, benchConfig[responses], "Answer briefly."},
		`{"lock":["provider","reasoning.effort"],"bounds":{"temperature":{"max":1},"max_tokens":{"max":4096}},"models":["openai/*"],"drop":["logit_bias"]}`)
	resolver := inference.NewResolver(r.fixture, inference.Config{Memory: domain.NewMemory(1 << 20)})
	resolve := func(head string) func() error {
		body := benchBody(2<<10, head, "a word or two")
		return func() error {
			_, err := resolver.Resolve(t.Context(), user, inference.Request{Dialect: chat, Body: body})
			return err
		}
	}
	for _, operation := range []struct {
		name   string
		budget float64
		do     func() error
	}{
		{"a request without a reference", 3, resolve(`"model":"m",`)},
		{"a request with a reference", 19, resolve(`"model":"@preset/p",`)},
		{"a request with variables", 26, resolve(`"prompt":{"id":"t","variables":{"a":"1","b":"\"2\"","c":"3"}},`)},
		{"a request that keeps a policy", 21, resolve(`"model":"@preset/ruled",`)},
	} {
		t.Run(operation.name, func(t *testing.T) {
			storagetest.CheckAllocations(t, operation.budget, func() float64 {
				return testing.AllocsPerRun(100, func() {
					if err := operation.do(); err != nil {
						t.Fatal(err)
					}
				})
			})
		})
	}
}
