package inference

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/dialects"
	"github.com/caddy-presets/caddy-presets/domain/inference/draft"
	"github.com/caddy-presets/caddy-presets/domain/inference/policy"
	"github.com/caddy-presets/caddy-presets/domain/inference/prompts"
	"github.com/caddy-presets/caddy-presets/domain/inference/reference"
	"github.com/caddy-presets/caddy-presets/domain/internal/cache"
)

// Config configures a Resolver.
type Config struct {
	// Memory bounds the cached presets and workspaces. Others may share it. Nil stands for one
	// of domain.DefaultMemory.
	Memory *domain.Memory
	// DropFields are top-level fields that the gateway does not know. A Resolver drops
	// them from requests that name a preset.
	DropFields []string
	// AllowFields are top-level fields that pass where a policy, a key's limits or disabled tools apply,
	// whatever is in them.
	AllowFields []string
	// PassUnknownPrompts lets requests pass whose prompt has an id that no preset has, and
	// that name no preset otherwise. By default they are NotFound, and so they are for a key
	// with limits and where server tools are disabled: a gateway's prompt may have any model
	// and any tool.
	PassUnknownPrompts bool
	// TellModel fills Resolution.Model.
	TellModel bool
	// AddStreamUsage asks the gateway for the usage of chat streams that name a preset and
	// say nothing of it. Resolution.StreamUsageAdded tells where it does.
	AddStreamUsage bool
	// DropAttribution leaves the block out with which Claude Code begins the system prompt of a
	// Messages request, also of one that names no preset. Resolution.Rewritten tells that then.
	DropAttribution bool
}

// Resolver applies presets to inference requests. It caches presets, prepared for each
// dialect. The store's stamps say whether a cached preset is current, so a change takes
// effect with the next request.
//
// A Resolver is safe for concurrent use. Close frees its cache. A later request reads the
// store.
type Resolver struct {
	store           domain.Store
	config          Config
	unknown, opened map[string]bool // Config.DropFields and Config.AllowFields
	cache           *cache.Cache[cacheKey, cached]
}

// NewResolver returns a Resolver over store.
func NewResolver(store domain.Store, config Config) *Resolver {
	setOf := func(names []string) map[string]bool {
		set := make(map[string]bool, len(names))
		for _, name := range names {
			set[name] = true
		}
		return set
	}
	memory := cmp.Or(config.Memory, domain.NewMemory(domain.DefaultMemory))
	return &Resolver{store, config, setOf(config.DropFields), setOf(config.AllowFields), cache.New[cacheKey, cached](memory)}
}

// Inherit copies the cache of other. Both must have the same store. It copies nothing if their
// DropFields differ, because cached presets lack these fields.
func (r *Resolver) Inherit(other *Resolver) {
	if maps.Equal(r.unknown, other.unknown) {
		r.cache.CopyFrom(other.cache)
	}
}

// Close frees the cache. It may be called while requests are resolved, and again.
func (r *Resolver) Close() { r.cache.Close() }

// Request is an inference request as it was sent.
type Request struct {
	Dialect domain.Dialect
	// Body is its text. A Resolver never changes it.
	Body []byte
	// OtherType tells that the header names another media type than JSON, another charset
	// than UTF-8, or several types. A Resolver reads JSON in UTF-8 all the same. A gateway
	// may read other fields in the same bytes. The caller sends a merged request as JSON.
	OtherType bool
	// Query is the query string of the address, as it goes upstream.
	Query string
	// SessionID is the session that a header names, empty for none.
	SessionID string
	// Takes names the fields that the route takes from a preset, besides the model and
	// the system prompt. Nil stands for all fields of the dialect. Other fields are not
	// added, and not in Resolution.Dropped.
	Takes []string
	// Measured tells that a limit of tokens or costs holds for the request. Resolution.Asked is filled then, and a chat
	// stream is asked for its usage, also if it names no preset, or says that it does not want that. A request in which
	// a gateway may read that it asks for something else is Invalid.
	Measured bool
	// Trial is the version to apply instead of a stored one, nil for none. The request then needs no reference.
	Trial *Trial
	// Memory grants the memory of the merged body, and of copies until it is made. Resolve
	// returns its error. It releases what the merged body shares with Body and with the cache.
	// Nil sets no limit.
	Memory draft.Memory
}

// Resolution is the result of resolving an inference request.
type Resolution struct {
	// Body goes upstream. It is nil after an error.
	Body draft.Body
	// Rewritten tells that Body is not the request's own. That is so for each request that names
	// a preset, for one without the attribution that it was sent with, where usage was added, and for one for
	// images that has the model of its workspace.
	Rewritten bool
	// Preset is the slug of the applied preset. It is empty where the request names
	// none, and so are PresetID, Version, Label, WorkspaceID and Dropped. Version is 0 for a Trial, and
	// PresetID is empty for one of a new preset.
	Preset      string
	PresetID    string
	Version     int
	WorkspaceID string
	// Label is the label by which the request named the version, empty for none.
	Label string
	// Model is the model that Body asks for, if Config.TellModel is set. Without a model it is
	// the first of the list of models. It is empty if there is none, or if it is longer than
	// 256 bytes.
	Model string
	// PresetLimits are those of the applied preset, nil for none. They have another address once the
	// preset has changed.
	PresetLimits *domain.PresetLimits
	// Asked is what Body asks for, if Request.Measured is set or the preset has limits of tokens or costs.
	Asked Asked
	// StreamUsageAdded tells that Body asks for usage at the end of the stream, and the
	// client's request did not.
	StreamUsageAdded bool
	// Dropped names settings and fields that did not go upstream as they are. The request's
	// dialect has no counterpart for them, the gateway does not know them, or gateways refuse
	// them beside the rest. Names consist of ASCII letters, digits and _ . : - only.
	Dropped []string
	// FromMemory tells that the preset was resolved without reading the store.
	FromMemory bool
	// Enforced names the settings in the preset's policy that changed the request. The
	// names are the policy's.
	Enforced []string
	// SessionID is the session_id field of the body. It is empty if there is none, or if
	// a header cannot hold it.
	SessionID string

	fields []Field // of a merged Body
	// filled tells that the model is the workspace's, although no preset is named.
	filled bool
}

// Field is a top-level field of what goes upstream. Its Name is cut as rawjson.Names cut it.
type Field struct {
	Name string
	From draft.Source
}

// Fields returns the top-level fields of Body in their order, and the source of each. A body
// that is no JSON object has none. More than 256 are Invalid.
func (r Resolution) Fields() ([]Field, error) {
	if r.Preset != "" {
		return r.fields, nil
	}
	var fields []Field
	for field, err := range dialects.UsualNames.Object(r.Body.Bytes()) {
		switch {
		case err != nil:
			return nil, nil
		case len(fields) == reference.MaxRequestFields: // each takes much more memory than its bytes
			return nil, reference.ErrTooManyFields
		}
		from := draft.FromRequest
		switch {
		case r.filled && field.Name == "model":
			from = draft.FromWorkspace
		case r.StreamUsageAdded && field.Name == streamOptions:
			from = draft.FromServer
		}
		fields = append(fields, Field{field.Name, from})
	}
	return fields, nil
}

// Resolve applies the preset that an inference request names. The preset is in the workspace of who, and
// the zero Principal acts in the default one. The body of a request that names no preset is returned
// unchanged, even if it is not JSON, but for Config.DropAttribution and a missing model of images.
//
// A session, else a key, always gets the same version of a split. The session id of the body comes before
// that of the header.
//
// A preset that does not exist, is not active, is out of the key's reach, or does not have the version or
// label is NotFound. A request that breaks the preset's policy, uses a disabled server tool, or names a model
// that its key may not name is Forbidden. Mistakes in a reference, in variables and in what cannot be merged
// are Invalid, and so is what is not known where a policy, a key's limits or disabled tools apply. Errors
// name the field.
//
// Only Resolution.Body refers to the body afterwards.
func (r *Resolver) Resolve(ctx context.Context, who domain.Principal, sent Request) (Resolution, error) {
	m := mergers.Get().(*merger)
	defer m.recycle()
	m.unknown, m.isMeasured, m.dropsAttribution = r.unknown, sent.Measured, r.config.DropAttribution && sent.Dialect == domain.Messages
	m.Memory = sent.Memory
	m.rules = policy.Check{Draft: &m.Draft, Dialect: sent.Dialect, Request: &m.request, Prompt: &m.prompt, Takes: sent.Takes, Who: who, Opened: r.opened}
	request := &m.request
	request.Dialect = sent.Dialect
	if sent.Trial != nil {
		request.Found, request.Ref.Slug = true, sent.Trial.slug
	}
	request.Read(sent.Body)
	out := Resolution{SessionID: reference.UsableSession(request.SessionID)}
	pass := func() (Resolution, error) {
		if err := r.checkUnresolved(ctx, m, sent); err != nil {
			return out, err
		}
		switch { // what a gateway may read in another way
		case m.isMeasured && sent.OtherType:
			return out, mustBe("content-type", "must be application/json, with no parameter but charset=utf-8")
		case m.isMeasured && request.Err != nil:
			return out, request.Err
		}
		out.Body = draft.Body{sent.Body}
		if m.dropsAttribution && request.Err == nil { // else a gateway may read it in another way
			if rest := prompts.WithoutAttribution(request.Fields, sent.Body); rest != nil {
				out.Body, out.Rewritten = rest, true
			}
		}
		if asking := m.withStreamUsage(sent.Body); asking != nil {
			out.Body, out.Rewritten, out.StreamUsageAdded = asking, true, true
		}
		err := m.fillImageModel(&out, sent)
		if err == nil && m.isMeasured {
			out.Asked, err = askedOf(sent.Dialect, m.sent)
		}
		if err != nil {
			out.Body = nil
			return out, err
		}
		if r.config.TellModel {
			out.Model = modelOf(m.sent)
		}
		return out, nil
	}
	if who.PresetRequired() && !request.Found {
		return out, domain.InvalidAt("/preset", "must name a preset, as the key serves no other requests")
	}
	if !request.Found {
		return pass()
	}
	if err := cmp.Or(request.Err, reference.CheckSessionID("x-session-id", sent.SessionID)); err != nil {
		return out, err
	}
	prompt := request.Prompt
	passUnknown, err := r.passesUnknown(ctx, who, prompt)
	if err != nil {
		return out, err
	}
	switch mistake := cmp.Or(prompt.ErrID, prompt.Err); {
	case prompt.ErrID != nil && passUnknown:
		return pass()
	case mistake != nil && !passUnknown:
		return out, mistake
	}
	workspace, known, err := r.workspace(ctx, who)
	if err != nil {
		return out, err
	}
	var id stickyID
	if request.Ref.Pin != "" { // it may be a label that has a split
		id = newStickyID(cmp.Or(out.SessionID, reference.UsableSession(sent.SessionID)), who.KeyID)
	}
	var use usedVersion
	if sent.Trial != nil {
		use, err = r.tried(ctx, who, workspace.id, sent.Trial)
	} else {
		use, err = r.version(ctx, who, workspace.id, request.Ref, id, sent.Dialect)
	}
	switch {
	case passUnknown && errors.Is(err, reference.ErrNoPreset):
		return pass()
	case cmp.Or(err, prompt.Err) != nil:
		return out, cmp.Or(err, prompt.Err)
	}
	m.workspace, m.streamUsage, m.isMeasured = workspace, r.config.AddStreamUsage, sent.Measured || use.limits.Measured()
	m.use(use)
	if err := m.rules.Admit(sent.Body, sent.Query, sent.OtherType); err != nil {
		return out, err
	}
	if err := m.merge(); err != nil {
		return out, err
	}
	if err := m.checkMerged(); err != nil {
		return out, err
	}
	if m.isMeasured {
		if out.Asked, err = askedOf(sent.Dialect, m.Value); err != nil {
			return out, err
		}
	}
	merged, err := m.Compose()
	if err != nil {
		return out, err
	}
	if r.config.TellModel {
		out.Model = modelOf(m.Value)
	}
	out.fields = make([]Field, len(m.Parts))
	for i, p := range m.Parts {
		out.fields[i] = Field{p.Name, p.From}
	}
	out.Body, out.Rewritten = merged, true
	out.Preset, out.PresetID, out.Version, out.Label, out.WorkspaceID = request.Ref.Slug, use.presetID, use.number, use.label, workspace.id
	out.PresetLimits = use.limits
	out.StreamUsageAdded, out.FromMemory = m.streamUsageAdded, known && use.fromMemory
	out.Dropped = slices.Clip(use.settings.dropped) // shared, so append must copy it
	for _, name := range m.dropped {
		if !slices.Contains(use.settings.dropped, name) {
			out.Dropped = append(out.Dropped, name)
		}
	}
	out.Enforced = m.rules.Broken
	return out, nil
}

// passesUnknown reports whether a request passes if no preset has the id of its prompt.
func (r *Resolver) passesUnknown(ctx context.Context, who domain.Principal, prompt *reference.Prompt) (bool, error) {
	if !r.config.PassUnknownPrompts || !prompt.Only || who.IsLimited() {
		return false, nil
	}
	workspace, _, err := r.workspace(ctx, who)
	if domain.KindOf(err) == domain.NotFound { // it has disabled nothing
		return true, nil
	}
	return err == nil && len(workspace.disabledTools) == 0, err
}
