package domain

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// DefaultCacheSize is how much memory a Resolver uses for what it keeps of
// presets where nothing else is said, in bytes.
const DefaultCacheSize = 64 << 20

// ResolverConfig says how presets are resolved.
type ResolverConfig struct {
	// CacheSize bounds the memory for what is kept of presets and workspaces,
	// in bytes; zero stands for DefaultCacheSize.
	CacheSize int64
	// DropFields are top-level fields that the gateway does not know. They are
	// left out of requests that name a preset.
	DropFields []string
}

// Resolver applies presets to inference requests. It keeps what it reads of
// presets in memory, prepared for each dialect, within a bound; the store's
// stamps tell when that is no longer so, so a change acts on the next request.
//
// A Resolver is safe for concurrent use. Close frees its memory; requests that
// come later are answered from the store alone.
type Resolver struct {
	store   Store
	unknown map[string]bool
	cache   *cache
}

// resolvedPreset is a version of an active preset, prepared for one dialect.
type resolvedPreset struct {
	slug     string
	version  int
	settings *settings
}

// NewResolver returns a Resolver over store.
func NewResolver(store Store, config ResolverConfig) (*Resolver, error) {
	size := config.CacheSize
	if size == 0 {
		size = DefaultCacheSize
	}
	cache, err := newCache(size)
	if err != nil {
		return nil, err
	}
	r := &Resolver{store: store, cache: cache, unknown: make(map[string]bool)}
	for _, field := range config.DropFields {
		r.unknown[field] = true
	}
	return r, nil
}

// Close frees the memory of r.
func (r *Resolver) Close() { r.cache.close() }

// Resolution is what becomes of an inference request.
type Resolution struct {
	// Body is what goes upstream: the very bytes of the request where it names
	// no preset.
	Body []byte
	// Preset is the slug of the preset that was applied, empty when the
	// request names none. The fields below are then empty, too.
	Preset      string
	Version     int
	WorkspaceID string
	// Dropped names what did not go upstream: settings of the preset that the
	// request's dialect has no counterpart for, and fields that the gateway
	// does not know. Each name is of ASCII letters, digits and _ . : - alone.
	Dropped []string
	// SessionID is the session_id field of the body, empty when there is none.
	SessionID string

	parts []part
}

// Field is a top-level field of what goes upstream.
type Field struct {
	Name string
	From Source
}

// Fields returns the top-level fields of Body and where each comes from, in
// their order. A body that is no JSON object has none.
func (r Resolution) Fields() []Field {
	var fields []Field
	if r.Preset == "" {
		for field, err := range scanObject(r.Body) {
			if err != nil {
				return nil
			}
			fields = append(fields, Field{field.name, FromRequest})
		}
	}
	for _, p := range r.parts {
		fields = append(fields, Field{p.name, p.from})
	}
	return fields
}

// Resolve applies the preset that the body of an inference request names, from
// the workspace that who acts in; the zero Principal acts in the default one. A
// request that names none comes back as it is, even if it is not JSON.
//
// A reference that is malformed, one of several, or inside models, and a
// request that cannot be merged, is Invalid; a preset that does not exist, is
// not active or has no such version is NotFound, and named. Resolve keeps no
// reference to body but in what it returns.
func (r *Resolver) Resolve(ctx context.Context, who Principal, dialect Dialect, body []byte) (Resolution, error) {
	request := readRequest(body)
	out := Resolution{Body: body, SessionID: request.sessionID}
	switch {
	case !request.found:
		return out, nil
	case request.err != nil:
		return out, request.err
	}
	workspace, err := r.workspace(ctx, who)
	if err != nil {
		return out, err
	}
	preset, err := r.preset(ctx, workspace.id, request.ref, dialect)
	if err != nil {
		return out, err
	}
	m := &merger{
		dialect: dialect, unknown: r.unknown,
		request: request, settings: preset.settings, workspace: workspace,
	}
	if err := m.merge(); err != nil {
		return out, err
	}
	out.Body, out.parts = assemble(m.parts), m.parts
	out.Preset, out.Version, out.WorkspaceID = preset.slug, preset.version, workspace.id
	out.Dropped = slices.Clip(preset.settings.dropped) // shared, and so never appended to in place
	for _, name := range m.dropped {
		if !slices.Contains(preset.settings.dropped, name) {
			out.Dropped = append(out.Dropped, name)
		}
	}
	return out, nil
}

// workspace returns the defaults of the workspace that who acts in.
func (r *Resolver) workspace(ctx context.Context, who Principal) (workspaceDefaults, error) {
	id, slug := who.workspaceRef()
	key, stamp := "w\x00"+id+"\x00"+slug, r.store.Stamps().Workspace(id+slug)
	if kept := r.cache.get(key, stamp); kept != nil {
		return kept.workspace, nil
	}
	var w Workspace
	err := r.store.View(ctx, func(reader Reader) (err error) {
		w, err = workspaceOf(reader, who, "")
		return err
	})
	if err != nil {
		return workspaceDefaults{}, err
	}
	text := func(p *string) string {
		if p == nil {
			return ""
		}
		return *p
	}
	defaults := workspaceDefaults{id: w.ID, textModel: text(w.DefaultTextModel), providerSort: text(w.DefaultProviderSort)}
	r.cache.set(key, &cached{stamp: stamp, workspace: defaults}, minEntryCost+int64(len(defaults.textModel)+len(defaults.providerSort)))
	return defaults, nil
}

// preset returns the version of an active preset that a reference names.
func (r *Resolver) preset(ctx context.Context, workspaceID string, ref reference, dialect Dialect) (*resolvedPreset, error) {
	key := "p\x00" + string(dialect) + "\x00" + workspaceID + "\x00" + ref.slug + "\x00" + ref.pin
	stamp := r.store.Stamps().Preset(workspaceID, ref.slug)
	if kept := r.cache.get(key, stamp); kept != nil {
		return kept.preset, nil
	}
	var v PresetVersion
	err := r.store.View(ctx, func(reader Reader) (err error) {
		v, err = referredVersion(reader, workspaceID, ref)
		return err
	})
	if err != nil {
		return nil, err
	}
	settings, err := newSettings(v, dialect, r.unknown)
	if err != nil {
		return nil, fmt.Errorf("version %d of preset %s is damaged: %v", v.Version, v.PresetID, err) //nolint:errorlint // an Invalid tools field of a preset is not the request's
	}
	preset := &resolvedPreset{slug: ref.slug, version: v.Version, settings: settings}
	r.cache.set(key, &cached{stamp: stamp, preset: preset}, settings.cost()+int64(len(v.Config))) // which the settings are parts of
	return preset, nil
}

// referredVersion reads what a reference names.
func referredVersion(reader Reader, workspaceID string, ref reference) (v PresetVersion, err error) {
	p, err := reader.Preset(workspaceID, ref.slug)
	switch {
	case errors.Is(err, ErrNotFound), err == nil && p.Status != PresetActive:
		return v, &Error{Kind: NotFound, Message: "Preset not found: " + ref.String()}
	case err != nil:
		return v, err
	}
	n, ok := ref.version()
	if n == 0 {
		n = p.DesignatedVersion
	}
	if !ok || n > p.LatestVersion {
		return v, &Error{Kind: NotFound, Message: "Preset version not found: " + ref.String()}
	}
	return reader.PresetVersion(p, n)
}

// cost is the memory that s takes, about, in bytes.
func (s *settings) cost() int64 {
	cost := int64(minEntryCost + 2*len(s.prompt.quoted))
	for _, field := range s.fields {
		cost += int64(len(field.value)) + 64
	}
	for _, t := range s.tools {
		cost += int64(len(t.identity)) + 64
	}
	return cost
}
