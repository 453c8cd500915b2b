package inference_test

import (
	"encoding/base64"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// grants is a Memory that grants as much as a limit in all.
type grants struct{ limit, granted int }

func (g *grants) Reserve(size int) error {
	if size > g.limit-g.granted {
		return errTooMuch
	}
	g.granted += size
	return nil
}

func (*grants) Release(int) {}

func (*grants) Buffer(size int) []byte { return make([]byte, 0, size) }

// A request copies no large text without memory for it. Other goroutines allocate, too, so a
// request that allocates too much is resolved again.
func TestLargeTextsAreNotCopied(t *testing.T) {
	tier.Slow(t)
	tier.NoRace(t)
	r := newResolving(t)
	const size, little = 2 << 20, 256 << 10
	long := strings.Repeat("x", size)
	escaped := `\u0041` + long
	file := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\x01", size)))
	r.put(t, r.home.ID, "p", version{chat, `{"model":"m","tools":[{"type":"function","function":{"name":"f"}}]}`, "Be brief."})
	r.ruled(t, "locked", version{chat, `{"model":"m"}`, "Be brief."}, `{"lock":["system"]}`)
	r.ruled(t, "ruled", version{chat, `{"model":"m","reasoning":{"effort":"low"},"provider":{"sort":"price"}}`, ""},
		`{"lock":["reasoning.effort"],"bounds":{"reasoning.max_tokens":{"max":9}},"models":["m","o/*"],"drop":["tools"]}`)
	effort := strings.Repeat("e", 200)
	r.ruled(t, "growing", version{chat, `{"model":"m","reasoning":{"effort":"` + effort + `"}}`, ""}, `{"bounds":{"reasoning.effort":{"in":["`+effort+`"]}}}`)
	r.putTemplate(t, "t", responses, `{"model":"m","instructions":"Say {{x}}.","input":"Where is {{x}}?"}`)
	r.putTemplate(t, "files", responses, `{"model":"m","input":[`+strings.Repeat(`{"role":"user","content":"{{x}}"},`, 5)+`{"role":"user","content":"Hi"}]}`)
	r.ruledTemplate(t, "locked-t", responses, `{"model":"m","instructions":"{{x}}"}`, `{"lock":["system"]}`)
	const cached = `"cache_control":{"type":"ephemeral"}`
	r.put(t, r.home.ID, "cached", version{messages, `{"model":"m","tools":[{"name":"f",` + cached + `}],` + cached + `}`, ""})
	r.put(t, r.home.ID, "cached-alone", version{messages, `{"model":"m",` + cached + `}`, ""})
	r.ruled(t, "tooled", version{responses, `{"model":"m","tools":[{"type":"function","name":"f"}]}`, ""}, `{"lock":["tools"]}`)
	strict := r.strict(t, "strict", "openrouter:web_search")
	limited := limitedBy(domain.Scope{Models: []string{"m"}})
	team := r.team(t, "team", "dm", "price")
	r.put(t, team.WorkspaceID, "p", version{chat, `{"model":"m"}`, ""})
	resolver := r.resolver(t, inference.Config{AddStreamUsage: true, TellModel: true, DropAttribution: true})
	const talk = `"messages":[{"role":"user","content":"Hi"}]`
	for name, tc := range map[string]struct {
		who     domain.Principal
		dialect domain.Dialect
		body    string
	}{
		"instructions":                    {user, responses, `{"preset":"p","instructions":"` + long + `"}`},
		"instructions with an escape":     {user, responses, `{"preset":"p","instructions":"` + escaped + `"}`},
		"instructions behind a prompt":    {user, responses, `{"preset":"p","instructions":"Be brief.\n\n` + long + `"}`},
		"a system message":                {user, chat, `{"preset":"p","messages":[{"role":"system","content":"` + long + `"}]}`},
		"parts of a system message":       {user, chat, `{"preset":"p","messages":[{"role":"system","content":[{"type":"text","text":"Be"},{"type":"text","text":"` + escaped + `"}]}]}`},
		"blocks":                          {user, messages, `{"preset":"p","system":[{"type":"text","text":"` + long + `"}]}`},
		"many empty blocks":               {user, messages, `{"preset":"p","system":[` + strings.Repeat(`{"text":""},`, size/12) + `{}]}`},
		"a role":                          {user, chat, `{"preset":"p","messages":[{"role":"` + escaped + `","content":"Hi"}]}`},
		"locked instructions":             {user, responses, `{"preset":"locked","instructions":"` + escaped + `"}`},
		"a locked system message":         {user, chat, `{"preset":"locked","messages":[{"role":"system","content":"` + long + `"}]}`},
		"a role under a lock":             {user, chat, `{"preset":"locked","messages":[{"role":"` + escaped + `","content":"Hi"}]}`},
		"a member under a lock":           {user, chat, `{"preset":"locked","messages":[{"` + escaped + `":"system","content":"Hi"}]}`},
		"a value in a prompt":             {user, responses, namesWithPrompt("t", `{"x":"`+long+`"}`, `,"instructions":"Say `+long+`."`)},
		"a value in a locked prompt":      {user, responses, namesWithPrompt("locked-t", `{"x":"`+long+`"}`, `,"instructions":"`+long+`"`)},
		"a value with an escape":          {user, chat, namesWithPrompt("t", `{"x":"`+escaped+`"}`, "")},
		"a value that is a file":          {user, messages, namesWithPrompt("files", `{"x":{"type":"input_file","file_data":"data:text/plain;base64,`+file+`"}}`, "")},
		"the type of a value":             {user, chat, namesWithPrompt("files", `{"x":{"type":"`+escaped+`"}}`, "")},
		"the name of a value":             {user, chat, namesWithPrompt("t", `{"`+escaped+`":"x"}`, "")},
		"a model":                         {user, chat, `{"model":"` + long + `",` + talk + `}`},
		"a model with an escape":          {user, chat, `{"model":"` + escaped + `",` + talk + `}`},
		"a reference":                     {user, chat, `{"model":"` + long + `@preset/p",` + talk + `}`},
		"a model of a list":               {user, chat, `{"models":["` + escaped + `@preset"],` + talk + `}`},
		"a preset":                        {user, chat, `{"preset":"` + escaped + `",` + talk + `}`},
		"a session":                       {user, chat, `{"session_id":"` + escaped + `",` + talk + `}`},
		"the id of a prompt":              {user, chat, `{"prompt_id":"` + escaped + `"}`},
		"the version of a prompt":         {user, chat, `{"prompt_id":"t","prompt_version":"` + escaped + `"}`},
		"the number of a version":         {user, chat, `{"prompt_id":"t","prompt_version":` + strings.Repeat("1", size) + `}`},
		"a member of a prompt":            {user, chat, `{"prompt":{"` + escaped + `":"t"}}`},
		"a name":                          {user, chat, `{"` + long + `":1,` + talk + `}`},
		"a name beside a preset":          {user, chat, `{"preset":"p","` + escaped + `":1,` + talk + `}`},
		"a member that stays":             {user, chat, `{"preset":"ruled","reasoning":{"effort":"low","max_tokens":5,"` + escaped + `":"` + long + `"}}`},
		"a member that goes":              {user, chat, `{"preset":"ruled","reasoning":{"` + escaped + `":"` + long + `","max_tokens":5,"effort":"high"}}`},
		"members that grow":               {user, chat, `{"preset":"growing","reasoning":{` + strings.Repeat(`"effort":1,`, size/100) + `"a":1}}`},
		"a member that comes":             {user, chat, `{"preset":"ruled","reasoning":{"x":"` + long + `"}}`},
		"breakpoints":                     {user, messages, `{"preset":"cached","system":` + blocksWithBreakpoints(5) + `,"tools":[{"name":"` + long + `"}]}`},
		"many tools and breakpoints":      {user, messages, `{"preset":"cached-alone","system":` + blocksWithBreakpoints(5) + `,"tools":[` + strings.Repeat(`{},`, size/3) + `{}]}`},
		"a model under a policy":          {user, chat, `{"preset":"ruled","model":"o/` + escaped + `"}`},
		"models under a policy":           {user, chat, `{"preset":"ruled","models":["o/x","x","o/` + long + `"]}`},
		"entries under a policy":          {user, chat, `{"preset":"ruled","models":["x",{"model":"o/x","x":"` + long + `"}]}`},
		"a plugin under a policy":         {user, chat, `{"preset":"ruled","plugins":[{"id":"a"},{"id":"b","model":"x"},{"id":"` + escaped + `"}]}`},
		"the name of a tool":              {user, chat, `{"preset":"p",` + talk + `,"tools":[{"type":"function","function":{"name":"` + escaped + `"}}]}`},
		"a tool without a name":           {user, chat, `{"preset":"p",` + talk + `,"tools":[{"type":"function","function":{"x":"` + long + `"}}]}`},
		"a type where tools are off":      {strict, chat, `{"model":"m",` + talk + `,"tools":[{"type":"` + escaped + `"}]}`},
		"a plugin where tools are off":    {strict, chat, `{"model":"m",` + talk + `,"plugins":[{"id":"` + escaped + `"}]}`},
		"a name where tools are off":      {strict, chat, `{"model":"m",` + talk + `,"tools":[{"` + escaped + `":1}]}`},
		"a model of a limited key":        {limited, chat, `{"model":"` + escaped + `",` + talk + `}`},
		"a fallback of a limited key":     {limited, chat, `{"model":"m",` + talk + `,"fallbacks":[{"` + escaped + `":["` + long + `"]}]}`},
		"a name before malformed JSON":    {user, chat, `{"` + escaped + `":?}`},
		"a name before its end":           {user, chat, `{"preset":"p","` + escaped + `":{"a":`},
		"a name in a malformed search":    {strict, chat, `{"tools":[{"` + escaped + `":?}]}`},
		"a name in a search that ends":    {limited, chat, `{"x":{"` + escaped + `":[`},
		"a model that is not UTF-8":       {user, chat, `{"preset":"ruled","model":"` + strings.Repeat("\xff", size) + `"}`},
		"an item with its own tools":      {user, responses, `{"preset":"tooled","input":[{"role":"user","content":"` + long + `","tools":[{"type":"function"}]}]}`},
		"a plugin with data":              {user, chat, `{"preset":"ruled","plugins":[{"id":"x","data":"` + long + `"}]}`},
		"an order of providers":           {team, chat, `{"preset":"p",` + talk + `,"provider":{"x":"` + long + `"}}`},
		"the usage of the stream":         {user, chat, `{"preset":"p",` + talk + `,"stream":true,"stream_options":{"x":"` + long + `"}}`},
		"blocks behind an attribution":    {user, messages, `{"preset":"p","system":[` + claudeCode + `,{"type":"text","text":"` + long + `"}]}`},
		"an attribution":                  {user, messages, `{"preset":"p","system":[{"type":"text","text":"x-anthropic-billing-header: ` + long + `"}]}`},
		"an attribution without a preset": {user, messages, `{"model":"m","system":[` + claudeCode + `,{"type":"text","text":"` + long + `"}]}`},
		"a locked attribution":            {user, messages, `{"preset":"locked","system":[{"text":"` + escaped + `","type":"text"},` + claudeCode + `]}`},
		"a large locked attribution":      {user, messages, `{"preset":"locked","system":[{"text":"x-anthropic-billing-header:` + escaped + `","type":"text"}]}`},
		"the name of a message":           {user, chat, `{"preset":"p","messages":[{"` + escaped + `":1,"role":"system","content":"` + long + `"}]}`},
		"tools that were listed":          {user, responses, `{"preset":"tooled","input":[{"type":"mcp_list_tools","tools":[{"type":"function","name":"` + long + `"}]}]}`},
	} {
		for _, limit := range []int{little, math.MaxInt} {
			sent := inference.Request{Dialect: tc.dialect, Body: []byte(tc.body)}
			allocated, granted := uint64(math.MaxUint64), 0
			for try := 0; try < 3 && allocated > uint64(granted)+little; try++ {
				memory := &grants{limit: limit}
				sent.Memory = memory
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err := resolver.Resolve(t.Context(), tc.who, sent)
				runtime.ReadMemStats(&after)
				if err != nil && domain.KindOf(err) == domain.Internal && (limit > little || !errors.Is(err, errTooMuch)) {
					t.Fatalf("%s: %v", name, err)
				}
				if most := size + little; name == "a plugin with data" && memory.granted > most {
					t.Errorf("%s: %d KiB are granted, want the size of the request", name, memory.granted>>10)
				}
				allocated, granted = after.TotalAlloc-before.TotalAlloc, memory.granted
			}
			if allocated > uint64(granted)+little {
				t.Errorf("%s: %d KiB are allocated, want at most the granted %d KiB and little more", name, allocated>>10, granted>>10)
			}
		}
	}
}
