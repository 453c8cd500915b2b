package answer

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
)

// listedEvent is what testdata/events.json says of an event of a stream. TestEventTypes of e2e
// compares the file with the types of official clients.
type listedEvent struct {
	Read    map[string]string `json:"read"`    // what is read from places
	Skipped []string          `json:"skipped"` // other places that speak of usage
}

// givenFigures are the values that the test gives to what is read.
var givenFigures = map[string]any{
	"input": 1000, "output": 200, "cache_read": 30, "cache_write": 4, "reasoning": 5,
	"cost": json.Number("0.5"), "upstream_cost": json.Number("0.25"), "own_key": true,
}

// misleading are values that change the figures if they are read.
var misleading = []any{
	90001,
	json.RawMessage(misleadingObject),
	json.RawMessage("[" + misleadingObject + "]"),
}

const (
	misleadingUsage = `"input_tokens": 90002, "output_tokens": 90003, "prompt_tokens": 90004, "completion_tokens": 90005,
		"cache_read_input_tokens": 90006, "cache_creation_input_tokens": 90007, "cached_tokens": 90008,
		"cache_write_tokens": 90009, "reasoning_tokens": 90010, "thinking_tokens": 90011,
		"cost": 90012, "upstream_inference_cost": 90013`
	misleadingObject = `{` + misleadingUsage + `, "usage": {` + misleadingUsage + `}}`
)

// TestEvents reads each event of testdata/events.json.
func TestEvents(t *testing.T) {
	text, err := os.ReadFile("testdata/events.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]map[string]listedEvent
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for dialect, events := range all {
		var d domain.Dialect
		if err := d.UnmarshalText([]byte(dialect)); err != nil || !d.Valid() {
			t.Fatalf("%s is no dialect: %v", dialect, err)
		}
		for name, event := range events {
			t.Run(dialect+"/"+name, func(t *testing.T) {
				for _, value := range misleading {
					stream, want := event.stream(t, d, name, value)
					r := New(d, sseType, "")
					r.Write([]byte(stream), epoch)
					seen := r.Close(true)
					if got := (Seen{Tokens: seen.Tokens, Cost: seen.Cost, Unknown: seen.Unknown}); got != want {
						t.Errorf("seen %+v, want %+v in\n%s", got, want, stream)
					}
				}
			})
		}
	}
}

// stream returns a stream with an event, and what is to be seen of its usage. The places that
// are skipped have a value that must not be read.
func (e listedEvent) stream(t *testing.T, d domain.Dialect, name string, value any) (string, Seen) {
	t.Helper()
	body := map[string]any{}
	if name != "" {
		body["type"] = name
	}
	want := Seen{Tokens: Tokens{Input: 7, Output: 8}} // of the answer before an event that is skipped
	if len(e.Read) > 0 {
		want = Seen{Tokens: Tokens{1000, 200, 30, 4, 5}}
		if d == domain.Messages {
			want.Tokens.Input += 34 // it counts the cache apart
		}
	}
	costs := 0
	for place, figure := range e.Read {
		if givenFigures[figure] == nil {
			t.Fatalf("%s: there is no figure %q", place, figure)
		}
		setMember(t, body, place, givenFigures[figure])
		if strings.HasSuffix(figure, "cost") {
			costs++
		}
	}
	if costs == 2 {
		want.Cost = "0.75"
	}
	for _, place := range e.Skipped {
		setMember(t, body, place, value)
	}
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	stream := "event: " + name + "\ndata: " + string(data) + "\n\n"
	switch {
	case d == domain.Chat:
		return "data: " + string(data) + "\n\n", want
	case len(e.Read) == 0 && d == domain.Responses:
		return "data: {\"type\": \"response.completed\", \"response\": {\"usage\": {\"input_tokens\": 7, \"output_tokens\": 8}}}\n\n" + stream, want
	case len(e.Read) == 0:
		return "data: {\"type\": \"message_delta\", \"usage\": {\"input_tokens\": 7, \"output_tokens\": 8}}\n\n" + stream, want
	case name == "message_start":
		return stream + "data: {\"type\": \"message_delta\", \"usage\": {\"output_tokens\": 200}}\n\n", want
	}
	return stream, want
}

// setMember sets a member of nested objects. A place has the members' names, with dots.
func setMember(t *testing.T, object map[string]any, place string, value any) {
	t.Helper()
	outer, rest, nested := strings.Cut(place, ".")
	if !nested {
		if object[outer] != nil {
			t.Fatalf("%s is there twice", place)
		}
		object[outer] = value
		return
	}
	if object[outer] == nil {
		object[outer] = map[string]any{}
	}
	inner, ok := object[outer].(map[string]any)
	if !ok {
		t.Fatalf("%s is in a place that is skipped", place)
	}
	setMember(t, inner, rest, value)
}
