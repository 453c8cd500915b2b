package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/domain"
)

// api is the public API in one workspace.
type api struct {
	*client.Client
	place
}

// tries is how often a request is sent at most. A person waits for it.
const tries = 3

func (t *target) api(cmd *cobra.Command) (api, error) {
	c, err := t.client(cmd)
	if err != nil {
		return api{}, err
	}
	c.Tries = tries
	return api{c, t.place()}, nil
}

// query returns the query of a request from pairs of names and values, without empty values.
func (a api) query(pairs ...string) url.Values {
	query := make(url.Values)
	for pair := range slices.Chunk(append(pairs, "workspace_id", a.workspace), 2) {
		if pair[1] != "" {
			query.Set(pair[0], pair[1])
		}
	}
	return query
}

// do sends a request. An error tells what it means for the one who runs the command.
func (a api) do(ctx context.Context, r client.Request) (*client.Response, error) {
	response, err := a.Do(ctx, r)
	if err != nil {
		return nil, explain(err, a.place)
	}
	return response, nil
}

func (a api) get(ctx context.Context, path string, query url.Values) (*client.Response, error) {
	return a.do(ctx, client.Request{Method: http.MethodGet, Path: path, Query: query})
}

func (a api) read(ctx context.Context, path string, into any) (*client.Response, error) {
	response, err := a.get(ctx, path, a.query())
	if err != nil {
		return nil, err
	}
	return response, client.Decode(response.Data, into)
}

// change sends a change once, even if the connection is lost and it is sent again. A body
// that is not JSON yet is encoded; nil is none.
func (a api) change(ctx context.Context, r client.Request, body any) (*client.Response, error) {
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		r.Body = text
	}
	if r.Query == nil {
		r.Query = a.query()
	}
	if r.Header == nil {
		r.Header = make(http.Header)
	}
	r.Header.Set("Idempotency-Key", uuid.NewString())
	return a.do(ctx, r)
}

// preset reads a preset. The response has its tag and its JSON.
func (a api) preset(ctx context.Context, slug string) (p client.Preset, response *client.Response, err error) {
	if err := domain.CheckPresetSlug(slug); err != nil {
		return p, nil, err
	}
	response, err = a.read(ctx, client.PresetPath(slug), &p)
	return p, response, err
}

func (a api) version(ctx context.Context, slug string, number int) (v client.Version, response *client.Response, err error) {
	response, err = a.read(ctx, client.PresetPath(slug, "versions", strconv.Itoa(number)), &v)
	return v, response, err
}

// summaries returns the versions of a preset without settings and prompts, oldest first.
func (a api) summaries(ctx context.Context, slug string) (elements, error) {
	if err := domain.CheckPresetSlug(slug); err != nil {
		return nil, err
	}
	return a.Elements(ctx, client.PresetPath(slug, "versions"), a.query("fields", "summary")), nil
}

// numberOf returns the number of the version that ref names: a number, or a label without a split.
func numberOf(p client.Preset, ref string) (int, error) {
	if n, err := numberIn(ref); n > 0 || err != nil {
		return n, err
	}
	to, ok := p.Labels[ref]
	switch {
	case !ok:
		return 0, fmt.Errorf("preset %s has no label %s", p.Slug, ref)
	case len(to.Split) > 0:
		return 0, fmt.Errorf("label %s is a split of %s: name a version", ref, targetText(to))
	}
	return to.Version, nil
}

// versionOf reads the version that ref names, or the live one for "".
func (a api) versionOf(ctx context.Context, p client.Preset, ref string) (v client.Version, err error) {
	if ref == "" {
		return p.Designated, nil
	}
	number, err := numberOf(p, ref)
	if err == nil {
		v, _, err = a.version(ctx, p.Slug, number)
	}
	return v, err
}

// numberIn returns the number of a version in ref, and 0 if ref has the form of a label.
func numberIn(ref string) (int, error) {
	if ref != "" && strings.Trim(ref, "0123456789") == "" {
		if n, ok := domain.ParseNumber(ref); ok && n > 0 {
			return n, nil
		}
		return 0, fmt.Errorf("%s is no version: versions are numbered from 1, without leading zeros", ref)
	}
	if domain.CheckLabel(ref) != nil {
		return 0, fmt.Errorf("%q is neither the number of a version nor a label", ref)
	}
	return 0, nil
}

// targetText returns what a label stands for, such as 2 or 2:90,3:10.
func targetText(to domain.Target) string { return files.LabelOf(to).String() }

func labelsText(labels map[string]domain.Target) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, name+"="+targetText(labels[name]))
	}
	return strings.Join(parts, " ")
}
