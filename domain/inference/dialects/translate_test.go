package dialects

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/table"
)

var allDialects = []domain.Dialect{domain.Responses, domain.Chat, domain.Messages}

// settingsOf returns the members of an object that a test wrote.
func settingsOf(t testing.TB, text string) []rawjson.Member {
	t.Helper()
	members, err := rawjson.Members(jsontext.Value(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return members
}

// unknownSet returns the set of the words in names.
func unknownSet(names string) map[string]bool {
	set := map[string]bool{}
	for name := range strings.FieldsSeq(names) {
		set[name] = true
	}
	return set
}

func TestTranslate(t *testing.T) {
	for _, c := range table.Read(t, "testdata/translate.txt", "from", "to", "settings", "unknown", "want", "dropped") {
		t.Run(c["="], func(t *testing.T) {
			settings := settingsOf(t, c["settings"])
			fields, dropped := Translate(settings, domain.Dialect(c["from"]), domain.Dialect(c["to"]), unknownSet(c["unknown"]))
			if got := string(rawjson.ObjectOf(fields...)); got != c["want"] {
				t.Errorf("got\n%s, want\n%s", got, c["want"])
			}
			if got := strings.Join(dropped, " "); got != c["dropped"] {
				t.Errorf("dropped %q, want %q", got, c["dropped"])
			}
			if got := string(rawjson.ObjectOf(settings...)); got != string(rawjson.ObjectOf(settingsOf(t, c["settings"])...)) {
				t.Errorf("settings became %s", got)
			}
		})
	}
}

// A field without a rule stays as it is or is listed.
func TestTranslateFieldsWithoutRule(t *testing.T) {
	ruled := unknownSet(`max_output_tokens max_completion_tokens max_tokens reasoning reasoning_effort thinking output_config
		text response_format verbosity stop stop_sequences fallbacks tools tool_choice parallel_tool_calls service_tier`)
	for name, field := range Fields {
		in := field.Kept
		for _, from := range allDialects {
			for _, to := range allDialects {
				if in&SetOf(from) == 0 || ruled[name] {
					continue
				}
				fields, dropped := Translate([]rawjson.Member{rawjson.NewMember(name, jsontext.Value(`[ ]`))}, from, to, nil)
				want, wantDropped := `{"`+name+`":[ ]}`, []string(nil)
				if Fields[name].Form == nil || in&SetOf(to) == 0 {
					want, wantDropped = `{}`, []string{name}
				}
				if got := string(rawjson.ObjectOf(fields...)); got != want || !slices.Equal(dropped, wantDropped) {
					t.Errorf("%s from %s to %s: got %s, dropped %q, want %s, %q", name, from, to, got, dropped, want, wantDropped)
				}
			}
		}
	}
}

// checkTranslation fails unless fields and dropped have the form that every
// translation has.
func checkTranslation(t *testing.T, fields []rawjson.Member, dropped []string, to domain.Dialect, unknown map[string]bool) {
	t.Helper()
	seen := map[string]bool{}
	for _, f := range fields {
		if !f.Value.IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) || f.Value.Kind() == 'n' {
			t.Errorf("%s is %s, want JSON other than null", f.Name, f.Value)
		}
		if Fields[f.Name].Kept&SetOf(to) == 0 || Fields[f.Name].Form == nil || unknown[f.Name] {
			t.Errorf("got field %s, want fields that a request of %s may have", f.Name, to)
		}
		if seen[f.Name] {
			t.Errorf("got %s twice", f.Name)
		}
		seen[f.Name] = true
	}
	names := map[string]bool{}
	for _, name := range dropped {
		if names[name] || !regexp.MustCompile(`^[A-Za-z0-9_.:-]+$`).MatchString(name) {
			t.Errorf("dropped %q has %q, want each name once and fit for a header", dropped, name)
		}
		names[name] = true
	}
}

// FuzzTranslate takes the settings as an object of one member for each field.
// A member named by a number is the field of that number, so that any value
// meets any rule.
func FuzzTranslate(f *testing.F) {
	names := settingNames()
	for i, c := range table.Read(f, "testdata/translate.txt", "from", "to", "settings", "unknown", "want", "dropped") {
		from, to := slices.Index(allDialects, domain.Dialect(c["from"])), slices.Index(allDialects, domain.Dialect(c["to"]))
		f.Add(c["settings"], uint8(from), uint8(to), uint64(i))
	}
	f.Add(`{"tools":[{"type":"function","function":{"name":1,"name":"a"}},null,[]],"tool_choice":{"type":{}},"reasoning":[1]}`, uint8(1), uint8(2), uint64(0))
	f.Add(`{"thinking":{"type":"enabled","budget_tokens":[]},"output_config":{"format":{"type":"json_schema"},"format":7},"fallbacks":[[]]}`, uint8(2), uint8(0), uint64(1))
	f.Fuzz(func(t *testing.T, text string, from, to uint8, unknownBits uint64) {
		source, target := allDialects[from%3], allDialects[to%3]
		members, err := rawjson.Members(jsontext.Value(text))
		if err != nil {
			return
		}
		var settings []rawjson.Member
		seen, unknown := map[string]bool{}, map[string]bool{}
		for _, m := range members {
			if n, err := strconv.Atoi(m.Name); err == nil && n >= 0 {
				m.Name = names[n%len(names)]
			}
			if Fields[m.Name].Kept&SetOf(source) != 0 && !seen[m.Name] {
				seen[m.Name] = true
				settings = append(settings, m)
			}
		}
		for i, name := range names {
			if unknownBits>>i&1 == 1 {
				unknown[name] = true
			}
		}
		before := string(rawjson.ObjectOf(settings...))
		fields, dropped := Translate(settings, source, target, unknown)
		checkTranslation(t, fields, dropped, target, unknown)
		if after := string(rawjson.ObjectOf(settings...)); after != before {
			t.Errorf("settings became %s, want %s", after, before)
		}
		if len(fields)+len(dropped) == 0 {
			for _, s := range settings {
				if s.Value.Kind() != 'n' {
					t.Errorf("nothing is left of %s and nothing listed", before)
				}
			}
		}
	})
}
