package inference_test

import (
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/domain/inference/reference"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// A goroutine that waits for the gateway keeps its stack. Deeply nested JSON leaves it small.
func TestDeepNestingLeavesStacksSmall(t *testing.T) {
	tier.NoRace(t)
	r := newResolving(t)
	r.put(t, r.home.ID, "p", version{chat, `{"model":"m"}`, ""})
	r.ruled(t, "locked", version{chat, `{"model":"m","provider":{"x":[]}}`, ""}, `{"lock":["provider"]}`)
	strict := r.strict(t, "strict", search)
	resolver := r.resolver(t, inference.Config{})
	resolve := func(who domain.Principal, body string) func() {
		return func() {
			if _, err := resolver.Resolve(t.Context(), who, inference.Request{Dialect: chat, Body: []byte(body)}); err != nil {
				t.Errorf("%.40s: %v", body, err)
			}
		}
	}
	invalid := `{"model":"m","x":` + strings.Repeat("[", 9998)
	for name, do := range map[string]func(){
		"no preset":      resolve(user, `{"model":"m","x":`+deep(9998)+`}`),
		"a preset":       resolve(user, `{"preset":"p","x":`+deep(9998)+`}`),
		"invalid JSON":   resolve(user, invalid),
		"tools":          resolve(strict, `{"model":"m","tools":[{"type":"function","parameters":`+deep(9996)+`}]}`),
		"a locked field": resolve(user, `{"preset":"locked","provider":{"x":`+deep(9996)+`}}`),
		"another route":  func() { reference.FindReference([]byte(`{"x":"preset","y":` + deep(9998) + `}`)) },
	} {
		const n, most = 50, 64 << 10
		used := func() int64 {
			var stats runtime.MemStats
			runtime.GC() // frees the stacks of goroutines that ended
			runtime.ReadMemStats(&stats)
			return int64(stats.StackInuse)
		}
		before := used()
		var done, ended sync.WaitGroup
		wait := make(chan struct{})
		done.Add(n)
		for range n {
			ended.Go(func() {
				do()
				done.Done()
				<-wait
			})
		}
		done.Wait()
		if each := (used() - before) / n; each > most {
			t.Errorf("%s: a stack has %d bytes, want at most %d", name, each, most)
		}
		close(wait)
		ended.Wait()
	}
}
