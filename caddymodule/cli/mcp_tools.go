package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/domain"
)

type pageArgs struct {
	Offset int `json:"offset,omitempty" jsonschema:"How many entries to skip; default: 0"`
	Limit  int `json:"limit,omitempty" jsonschema:"How many entries to return, from 1 to 100; default: 50. total_count of the result tells how many there are"`
}

type listArgs struct {
	Query  string       `json:"query,omitempty" jsonschema:"Only presets whose slug, name or description has this text"`
	Status presetStatus `json:"status,omitempty" jsonschema:"Only presets with this status; default: all but archived ones"`
	pageArgs
}

type presetArgs struct {
	Slug string `json:"slug" jsonschema:"The slug of the preset, without @preset/"`
}

type versionArgs struct {
	presetArgs
	Version string `json:"version,omitempty" jsonschema:"The number of a version, such as 3, or a label; default: the live version"`
}

type versionsArgs struct {
	presetArgs
	pageArgs
}

type compareArgs struct {
	presetArgs
	From string `json:"from" jsonschema:"The number of the older version, or a label"`
	To   string `json:"to" jsonschema:"The number of the newer version, or a label"`
}

type usageArgs struct {
	presetArgs
	By    usageSeries `json:"by,omitempty" jsonschema:"What a series of the report stands for; default: version"`
	Step  usageStep   `json:"step,omitempty" jsonschema:"The time between points, in UTC; default: hour"`
	From  string      `json:"from,omitempty" jsonschema:"The begin, as RFC 3339, such as 2026-11-01T00:00:00Z; default: 24 hours ago"`
	To    string      `json:"to,omitempty" jsonschema:"The end, as RFC 3339; default: now"`
	Label string      `json:"label,omitempty" jsonschema:"Only requests that named this label"`
}

type draftArgs struct {
	presetArgs
	From     string          `json:"from,omitempty" jsonschema:"The number of the version to begin with, or a label; default: the live version. What the other arguments leave out is that version's"`
	Prompt   *string         `json:"prompt,omitempty" jsonschema:"The whole system prompt; default: that of the version to begin with"`
	Settings json.RawMessage `json:"settings,omitempty" jsonschema:"All settings, as the config of a version has them, such as {\"model\": \"openai/gpt-5\", \"temperature\": 0.2}; default: those of the version to begin with"`
	API      domain.Dialect  `json:"api,omitempty" jsonschema:"The API whose names the settings have; default: that of the version to begin with"`
	Message  string          `json:"message" jsonschema:"Why this version is made, in a line. People see it in lists"`
}

type tryArgs struct {
	versionArgs
	Input     string            `json:"input,omitempty" jsonschema:"The user's message; default: Hello, unless the preset has messages of its own"`
	Variables map[string]string `json:"variables,omitempty" jsonschema:"The values of the variables of a preset that is a template, by name"`
}

type liveArgs struct {
	presetArgs
	Version string `json:"version" jsonschema:"The number of the version that requests are to get, or a label"`
}

type labelArgs struct {
	presetArgs
	Label string `json:"label" jsonschema:"The name of the label, such as staging"`
	To    string `json:"to" jsonschema:"The number of a version, such as 3, or versions with the weights of a split, such as 2:90,3:10"`
}

func (t *tools) add(allowSend, allowLive bool) {
	addTool(t, reads, "list_presets", "List presets", "Lists or searches the presets of the workspace: slug, name, description, status, live version, labels. Prompts are in show_preset.",
		func(ctx context.Context, in listArgs) (json.RawMessage, error) {
			return body(t.get(ctx, "/presets", t.query("q", in.Query, "status", string(in.Status), "offset", numberText(in.Offset), "limit", numberText(in.Limit))))
		})
	addTool(t, reads, "show_preset", "Show a preset", "Shows a preset with its policy, its labels, and the settings (config) and the whole prompt (system_prompt) of the live version, or of another version.", t.show)
	addTool(t, reads, "list_versions", "List versions", "Lists the versions of a preset, oldest first, with their messages, authors and labels, and without settings and prompts.",
		func(ctx context.Context, in versionsArgs) (json.RawMessage, error) {
			return t.below(ctx, in.Slug, "versions", "fields", "summary", "offset", numberText(in.Offset), "limit", numberText(in.Limit))
		})
	addTool(t, reads, "compare_versions", "Compare two versions", "Compares two versions: the prompt as a unified diff, the settings and the messages of a template as JSON Patches.",
		func(ctx context.Context, in compareArgs) (json.RawMessage, error) {
			return t.below(ctx, in.Slug, "diff", "from", in.From, "to", in.To)
		})
	addTool(t, reads, "read_usage", "Read usage", "Reports requests, errors, tokens, cost, time and feedback scores of a preset, by version unless told otherwise.",
		func(ctx context.Context, in usageArgs) (json.RawMessage, error) {
			return t.below(ctx, in.Slug, "usage", "by", string(in.By), "step", string(in.Step), "from", in.From, "to", in.To, "label", in.Label)
		})
	addTool(t, adds, "draft_version", "Store a draft", "Stores a new version of a preset as a draft, from a prompt, settings or both. It serves no requests until a person puts it live. Returns its number, and in stored_without the settings that presets do not keep.", t.draft)
	if t.tries != nil {
		addTool(t, reads, "try_version", "Show the request of a version", "Shows the exact request that the gateway would get for a message to a version, and where each field comes from. Nothing is sent.",
			func(ctx context.Context, in tryArgs) (json.RawMessage, error) {
				_, r, err := t.trial(ctx, in)
				if err != nil {
					return nil, err
				}
				return body(t.tries.dryRun(ctx, r))
			})
	}
	if allowSend {
		addTool(t, sends, "send_version", "Send a message to a version", "Sends a message to a version, and returns the model's answer with the tokens and the time. The gateway's provider may charge for it.", t.send)
	}
	if allowLive {
		addTool(t, replaces, "put_live", "Put a version live, or roll back", "Makes all requests for the preset get a version at once: a draft, or an earlier version to roll back. Use it only if the user asks for that.", t.live)
		addTool(t, replaces, "set_label", "Set a label", "Makes a label stand for a version, or for a split of several. Requests for @preset/<slug>@<label> get it at once. Use it only if the user asks for that.", t.label)
	}
}

// below reads what is below a preset, with a query of names and values.
func (t *tools) below(ctx context.Context, slug, name string, query ...string) (json.RawMessage, error) {
	if err := domain.CheckPresetSlug(slug); err != nil {
		return nil, err
	}
	return body(t.get(ctx, client.PresetPath(slug, name), t.query(query...)))
}

// body returns the body of a response.
func body(response *client.Response, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

func (t *tools) show(ctx context.Context, in versionArgs) (json.RawMessage, error) {
	p, response, err := t.preset(ctx, in.Slug)
	if err != nil || in.Version == "" {
		return body(response, err)
	}
	number, err := numberOf(p, in.Version)
	if err != nil {
		return nil, err
	}
	_, v, err := t.version(ctx, in.Slug, number)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := client.Decode(response.Data, &members); err != nil {
		return nil, err
	}
	delete(members, "designated_version")
	return json.Marshal(map[string]any{"data": members, "version": v.Data})
}

func (t *tools) draft(ctx context.Context, in draftArgs) (json.RawMessage, error) {
	p, _, err := t.preset(ctx, in.Slug)
	if err != nil {
		return nil, err
	}
	v, err := t.versionOf(ctx, p, in.From)
	if err != nil {
		return nil, err
	}
	if in.Prompt != nil {
		v.SystemPrompt = in.Prompt
	}
	if in.Settings != nil {
		v.Config = in.Settings
	}
	if in.API != "" {
		v.Dialect = in.API
	}
	v.Message = &in.Message
	made, response, err := t.api.add(ctx, in.Slug, v, true, nil)
	if response == nil || made.Version == 0 {
		return nil, err
	}
	answer := map[string]any{"slug": in.Slug, "draft_version": made.Version}
	if err != nil { // another draft would not be stored otherwise
		answer["stored_without"] = cmp.Or(response.Header.Get("X-Preset-Ignored"), "something: compare it")
	}
	if err := client.Decode(response.Data, &p); err != nil {
		return nil, err
	}
	answer["live_version"] = p.DesignatedVersion
	return json.Marshal(answer)
}

// trial returns a request that tries a version. Both keys must mean the same preset, since they may be of
// two workspaces.
func (t *tools) trial(ctx context.Context, in tryArgs) (client.Version, client.Request, error) {
	shown, _, err := t.preset(ctx, in.Slug)
	if err != nil {
		return client.Version{}, client.Request{}, err
	}
	tried, _, err := t.tries.preset(ctx, in.Slug)
	if err == nil && tried.ID != shown.ID {
		err = fmt.Errorf("preset %s of the inference key is another one: the keys are of two workspaces", in.Slug)
	}
	if err != nil {
		return client.Version{}, client.Request{}, err
	}
	v, err := t.tries.triedVersion(ctx, tried, in.Version)
	if err != nil {
		return v, client.Request{}, err
	}
	r, err := newTrial(in.Slug, in.Version, v, in.Input, in.Variables)
	return v, r, err
}

func (t *tools) send(ctx context.Context, in tryArgs) (json.RawMessage, error) {
	v, r, err := t.trial(ctx, in)
	if err != nil {
		return nil, err
	}
	report, err := t.tries.sendTrial(ctx, v.Dialect, r, &output{w: io.Discard, keep: true, tools: []string{}})
	if err != nil {
		return nil, err
	}
	return json.Marshal(report)
}

func (t *tools) live(ctx context.Context, in liveArgs) (json.RawMessage, error) {
	r, to, err := designation(in.Slug, in.Version)
	if err != nil {
		return nil, err
	}
	before, response, err := t.changePreset(ctx, in.Slug, r, to)
	if err != nil {
		return nil, err
	}
	var after client.Preset
	if err := client.Decode(response.Data, &after); err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"slug": in.Slug, "live_version": after.DesignatedVersion, "before": before.DesignatedVersion})
}

func (t *tools) label(ctx context.Context, in labelArgs) (json.RawMessage, error) {
	if err := domain.CheckLabel(in.Label); err != nil {
		return nil, err
	}
	to, err := targetIn(in.To)
	if err != nil {
		return nil, err
	}
	_, response, err := t.changePreset(ctx, in.Slug, client.Request{Method: http.MethodPut, Path: client.PresetPath(in.Slug, "labels", in.Label)}, to)
	return body(response, err)
}
