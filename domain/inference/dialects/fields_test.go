package dialects

import (
	"maps"
	"slices"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema"
)

// Each schema names all settings that presets keep of its dialect. So no client is told
// that a stored member was ignored.
func TestSchemasNameSettings(t *testing.T) {
	schemas, err := schema.Load()
	if err != nil {
		t.Fatal(err)
	}
	for dialect, s := range map[domain.Dialect]*schema.Schema{
		domain.Responses: schemas.ResponsesRequest, domain.Chat: schemas.ChatRequest, domain.Messages: schemas.MessagesRequest,
	} {
		for name, field := range Fields {
			in := field.Kept
			if in&SetOf(dialect) != 0 && !s.Names(name) {
				t.Errorf("%s: the schema does not name %s, which is stored", dialect, name)
			}
		}
		if !s.Names(PromptField[dialect]) || s.Names("temprature") || s.Names("") {
			t.Errorf("%s: the schema does not name the prompt's field, or names what nobody knows", dialect)
		}
	}
}

// settingNames are the names of all settings, sorted.
func settingNames() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(Fields)), func(name string) bool { return Fields[name].Kept == 0 })
}
