package inference

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// workspace returns the defaults of the workspace that who acts in. fromMemory tells that the store was not
// read.
func (r *Resolver) workspace(ctx context.Context, who domain.Principal) (_ *workspaceDefaults, fromMemory bool, err error) {
	id, slug := who.WorkspaceRef()
	key, stamp := cacheKey{kind: workspaceKind, id: id, slug: slug}, r.store.Stamps().Workspace(id+slug)
	if kept, ok := r.cache.Get(key, stamp); ok {
		return kept.workspace, true, nil
	}
	var w domain.Workspace
	err = r.store.View(ctx, func(reader domain.Reader) (err error) {
		id, err := domain.Home(reader, who)
		if err != nil {
			return err
		}
		w, err = reader.Workspace(id)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	defaults := &workspaceDefaults{id: w.ID, textModel: domain.ValueOr(w.DefaultTextModel, ""), imageModel: domain.ValueOr(w.DefaultImageModel, ""), providerSort: domain.ValueOr(w.DefaultProviderSort, "")}
	defaults.limits = domain.WorkspaceLimits{ID: w.ID, Limits: w.Limits, Budgets: w.Budgets}
	cost := minEntryCost + len(defaults.textModel) + len(defaults.imageModel) + len(defaults.providerSort)
	var loggingCost int
	defaults.logging, loggingCost = newLogging(&w)
	cost += loggingCost
	if w.DisabledServerTools != nil {
		defaults.disabledTools = *w.DisabledServerTools
		for _, tool := range defaults.disabledTools {
			cost += len(tool) + 16
		}
	}
	r.cache.Put(key, stamp, cached{workspace: defaults}, cost)
	return defaults, false, nil
}

// WorkspaceID returns the id of the workspace that who acts in. It is cached.
func (r *Resolver) WorkspaceID(ctx context.Context, who domain.Principal) (string, error) {
	defaults, _, err := r.workspace(ctx, who)
	if err != nil {
		return "", err
	}
	return defaults.id, nil
}

// Limits returns what the workspace that who acts in bounds. It is cached, and has another address once the
// workspace has changed.
func (r *Resolver) Limits(ctx context.Context, who domain.Principal) (*domain.WorkspaceLimits, error) {
	defaults, _, err := r.workspace(ctx, who)
	if err != nil {
		return nil, err
	}
	return &defaults.limits, nil
}

// usedVersion is the version that a reference names.
type usedVersion struct {
	presetID string
	number   int
	label    string // by which it was named, or empty
	settings *settings
	policy   *policy.Policy // of the preset, nil for none
	limits   *domain.PresetLimits
	// fromMemory tells that the store was not read.
	fromMemory bool
}

// version returns the version that a reference names, with its settings and the preset's
// policy. It caches the preset and its policy under the preset's stamp. It caches settings
// under the stamp of all versions, which changes of a preset leave alone, so they stay
// prepared.
func (r *Resolver) version(ctx context.Context, who domain.Principal, workspaceID string, ref reference.Ref, id stickyID, dialect domain.Dialect) (use usedVersion, err error) {
	if !who.ReachesPreset(ref.Slug) {
		return use, errPresetNotFound(ref, reference.ErrNoPreset)
	}
	key := cacheKey{kind: presetKind, id: workspaceID, slug: ref.Slug}
	stamps := r.store.Stamps()
	stamp, versions := stamps.Preset(workspaceID, ref.Slug), stamps.Versions()
	if kept, ok := r.cache.Get(key, stamp); ok {
		if use.number, use.label, err = versionOf(ref, kept.preset, id); err != nil {
			return use, err
		}
		use.presetID, use.policy, use.limits = kept.preset.ID, kept.policy, kept.preset.Limits
		if kept, ok := r.cache.Get(settingsKey(kept.preset, use.number, dialect), versions); ok {
			use.settings, use.fromMemory = kept.settings, true
			return use, nil
		}
	}
	return r.load(ctx, key, stamp, versions, ref, id, dialect)
}

// load is version for what is not cached. key and stamps are those of the preset and
// of all versions.
func (r *Resolver) load(ctx context.Context, key cacheKey, stamp, versions domain.Stamp, ref reference.Ref, id stickyID, dialect domain.Dialect) (use usedVersion, err error) {
	var p domain.Preset
	var v domain.PresetVersion
	var kept cached
	err = r.store.View(ctx, func(reader domain.Reader) (err error) {
		if p, err = readPreset(reader, key.id, ref); err != nil {
			return err
		}
		if use.number, use.label, err = versionOf(ref, &p, id); err != nil {
			return err
		}
		// The stamp is read again, because the store may have been restored meanwhile.
		var ok bool
		if kept, ok = r.cache.Get(settingsKey(&p, use.number, dialect), r.store.Stamps().Versions()); !ok {
			v, err = readVersion(reader, p, use.number)
		}
		return err
	})
	if err != nil {
		return use, err
	}
	key.slug = p.Slug // ref.slug is a part of the request's model, which may be long
	keptPreset, err := r.keepPreset(key, stamp, p)
	if err != nil {
		return use, err
	}
	use.presetID, use.limits, use.policy = p.ID, p.Limits, keptPreset.policy
	if use.settings = kept.settings; use.settings != nil {
		return use, nil
	}
	if use.settings, err = newSettings(v, dialect, r.unknown); err != nil {
		return use, fmt.Errorf("version %d of preset %s is damaged: %v", v.Version, v.PresetID, err) //nolint:errorlint // an Invalid tools field of a preset is not the request's
	}
	r.cache.Put(settingsKey(&p, use.number, dialect), versions, cached{settings: use.settings}, use.settings.cost()+len(v.Config)) // the settings are parts of it
	return use, nil
}

func settingsKey(p *domain.Preset, n int, dialect domain.Dialect) cacheKey {
	return cacheKey{kind: settingsKind, id: p.ID, version: n, dialect: dialect}
}

// readPreset reads the active preset that a reference names. The error for one that does
// not exist is reference.ErrNoPreset, too.
func readPreset(reader domain.Reader, workspaceID string, ref reference.Ref) (domain.Preset, error) {
	p, err := reader.Preset(workspaceID, ref.Slug)
	switch {
	case errors.Is(err, domain.ErrNotFound):
		return p, errPresetNotFound(ref, reference.ErrNoPreset)
	case err == nil && p.Status != domain.PresetActive:
		return p, errPresetNotFound(ref, nil)
	}
	return p, err
}

// errPresetNotFound is the answer to a reference to no active preset, and to one that the
// caller does not reach.
func errPresetNotFound(ref reference.Ref, cause error) error {
	return &domain.Error{Kind: domain.NotFound, Code: domain.PresetNotFound, Message: "Preset not found: " + ref.String(), Err: cause}
}

// readVersion reads a version of p. If that fails, the workspace may have been deleted
// meanwhile, and with it the version.
func readVersion(reader domain.Reader, p domain.Preset, n int) (domain.PresetVersion, error) {
	v, err := reader.PresetVersion(p.State(), n)
	if err != nil {
		if gone := domain.CheckWorkspace(reader, p.WorkspaceID); domain.KindOf(gone) == domain.NotFound {
			err = gone
		}
	}
	return v, err
}

// presetCost is the memory that p takes, about, in bytes.
func presetCost(p *domain.Preset) int {
	cost := minEntryCost + 8*len(p.Kept.Also)
	for name, label := range p.Labels {
		cost += len(name) + 16*len(label.Split) + 128
	}
	return cost
}

// cost is the memory that s takes, about, in bytes.
func (s *settings) cost() int {
	cost := minEntryCost + 2*s.prompt.Size
	if s.template != nil {
		cost += s.template.Cost()
	}
	for _, field := range s.fields {
		cost += len(field.Name) + len(field.Value) + 96
	}
	for _, t := range s.tools {
		cost += len(t.identity) + 64
	}
	return cost
}
