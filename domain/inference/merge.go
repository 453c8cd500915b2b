package inference

import (
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/dialects"
	"github.com/caddy-presets/caddy-presets/domain/inference/draft"
	"github.com/caddy-presets/caddy-presets/domain/inference/policy"
	"github.com/caddy-presets/caddy-presets/domain/inference/prompts"
	"github.com/caddy-presets/caddy-presets/domain/inference/reference"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// settings are those of one version of a preset, for requests of one dialect. They never
// change.
type settings struct {
	fields  []rawjson.Member
	tools   []namedTool
	prompt  prompts.System
	dropped []string
	// template is nil for a version that is none. It has the prompt instead.
	template *prompts.Template
	// breakpoints is how many cache breakpoints the settings have, with the templateBreakpoints
	// of the template's messages.
	breakpoints, templateBreakpoints int
}

// newSettings prepares a stored version for a dialect. An error means that the stored
// version is damaged.
func newSettings(v domain.PresetVersion, dialect domain.Dialect, unknown map[string]bool) (*settings, error) {
	stored, err := rawjson.Members(jsontext.Value(v.Config))
	if err != nil {
		return nil, err
	}
	s := new(settings)
	if dialect == domain.Images {
		s.takeForImages(v, stored, unknown)
		return s, nil
	}
	s.fields, s.dropped = dialects.Translate(stored, v.Dialect, dialect, unknown)
	if tools := rawjson.Find(s.fields, "tools"); tools != nil {
		if s.tools, err = splitTools(dialect, tools, len(tools)); err != nil {
			return nil, err
		}
	}
	if unknown["models"] { // the merge chooses one of them
		known, _ := dialects.Translate(stored, v.Dialect, dialect, nil)
		if models := rawjson.Find(known, "models"); models != nil {
			s.fields = append(s.fields, rawjson.NewMember("models", models))
		}
	}
	switch {
	case v.Template != nil:
		var lost []string
		s.template, lost = prompts.NewTemplate(v, dialect)
		s.dropped = append(s.dropped, lost...)
	case v.SystemPrompt != nil:
		s.prompt = prompts.NewSystem(*v.SystemPrompt, dialect)
	}
	s.countBreakpoints()
	return s, nil
}

// merger merges a preset into one request.
type merger struct {
	draft.Draft
	rules     policy.Check
	unknown   map[string]bool // fields that the gateway does not know
	request   reference.Request
	settings  *settings
	workspace *workspaceDefaults
	// streamUsage is Config.AddStreamUsage, and streamUsageAdded that the request needed it.
	streamUsage, streamUsageAdded bool
	isMeasured                    bool // Request.Measured, or of the preset's limits
	dropsAttribution              bool // Config.DropAttribution, for requests of Messages

	// prompt is the system prompt, and messages are the template's, with values in the
	// place of variables. They have commas between.
	prompt       prompts.System
	messages     []jsontext.Value
	messagesFrom draft.Source

	dropped []string

	room [16]draft.Part // the memory of Parts of nearly all requests
}

// mergers are used again.
var mergers = sync.Pool{New: func() any { return new(merger) }}

// recycle gives the merger to another request. Nothing of this one stays in it.
func (m *merger) recycle() {
	*m = merger{}
	mergers.Put(m)
}

// workspaceDefaults has the fields that a workspace adds to requests that name a preset. It
// also has the tools that the workspace disables for all requests. They never change.
type workspaceDefaults struct {
	id            string
	textModel     string // empty: none
	imageModel    string // empty: none
	providerSort  string // empty: none
	disabledTools []string
	limits        domain.WorkspaceLimits
	logging       *Logging // nil if nothing is logged
}

// use sets the version that the request names. A request whose model is the version's own names none.
func (m *merger) use(v usedVersion) {
	m.settings, m.rules.Policy, m.rules.Stored = v.settings, v.policy, v.settings.fields
	m.rules.Disabled = m.workspace.disabledTools
	if rawjson.IsText(m.rules.Setting("model"), m.request.Model) { // as reference.Ref.NameForClaude has it
		m.request.Model = ""
	}
}

// merge merges the preset into the request: the request's own fields win. null counts as not
// sent, and so do {} and [] where the preset has the field. Lists of tools and memberFields
// are merged, and the preset's system prompt comes first. A template's messages come behind
// the system messages with which the conversation begins. The policy is enforced on the
// result. The workspace adds a model and a provider order if neither request nor preset has
// one. Settings of the preset that gateways refuse beside the rest are left out at last.
func (m *merger) merge() error {
	if m.dropsAttribution {
		if m.request.Fields = prompts.DropAttribution(m.request.Fields, m.Reserve); m.Refused != nil {
			return m.Refused
		}
	}
	if err := m.render(); err != nil {
		return err
	}
	if err := m.rules.LimitConversation(); err != nil {
		return err
	}
	m.Parts = m.room[:0]
	for _, field := range m.request.Fields {
		if err := m.addSent(field); err != nil {
			return err
		}
	}
	for _, field := range m.settings.fields {
		if !m.rules.TakesField(field.Name) || m.Index(field.Name) >= 0 {
			m.tellUntaken(field.Name)
			continue
		}
		if field.Value = m.contribution(field.Name, field.Value); field.Value != nil {
			m.Parts = append(m.Parts, draft.Part{Member: field, From: draft.FromPreset})
		}
	}
	if field := dialects.ConversationField[m.rules.Dialect]; len(m.messages) > 0 && m.Index(field) < 0 {
		if err := m.addConversation(rawjson.NewMember(field, nil)); err != nil {
			return err
		}
	}
	if field := dialects.PromptField[m.rules.Dialect]; !m.prompt.IsEmpty() && m.Index(field) < 0 {
		m.Parts = append(m.Parts, draft.Part{Member: rawjson.NewMember(field, nil), Edits: []draft.Edit{{Texts: m.prompt.Alone(m.rules.Dialect)}}, From: m.prompt.From})
	}
	if err := m.rules.Enforce(); err != nil {
		return err
	}
	m.fillProviderSort()
	m.addStreamUsage()
	if err := m.ensureModel(); err != nil {
		return err
	}
	m.reconcile()
	return nil
}

// addSent adds a field of the request, merged with the preset's.
func (m *merger) addSent(field rawjson.Member) error {
	ours := m.rules.Setting(field.Name)
	empty := rawjson.IsEmpty(field.Value) && (ours != nil || m.rules.Setting(dialects.Synonyms[m.rules.Dialect][field.Name]) != nil)
	sent := field.Value.Kind() != 'n' && !empty && (field.Name != "model" || !rawjson.IsText(field.Value, ""))
	add := func(value jsontext.Value, from draft.Source) {
		m.Parts = append(m.Parts, draft.Part{Member: rawjson.Member{Name: field.Name, Value: value, Quoted: field.Quoted}, From: from})
	}
	switch {
	case field.Name == "preset", reference.IsPromptField(m.rules.Dialect, field.Name): // not for the gateway
	case m.unknown[field.Name]:
		if sent { // else it says nothing, so nothing is dropped
			m.dropped = append(m.dropped, field.Name)
		}
		if sent && field.Name == "models" && !rawjson.IsEmpty(field.Value) {
			add(field.Value, draft.FromRequest) // until ensureModel
		}
	case field.Name == "model" && m.request.ModelIsReference:
		switch {
		case m.request.Model != "":
			add(rawjson.Quote(m.request.Model), draft.FromRequest)
		case ours != nil:
			add(ours, draft.FromPreset)
		}
	case field.Name == dialects.ConversationField[m.rules.Dialect] && len(m.messages) > 0:
		if !sent {
			field.Value = nil
		}
		return m.addConversation(field)
	case field.Name == dialects.PromptField[m.rules.Dialect] && !m.prompt.IsEmpty():
		if !sent {
			add(nil, m.prompt.From)
			m.Parts[len(m.Parts)-1].Edits = []draft.Edit{{Texts: m.prompt.Alone(m.rules.Dialect)}}
			return nil
		}
		edits, err := m.prompt.Place(m.rules.Dialect, field.Value, false)
		switch {
		case err != nil:
			return err
		case edits == nil:
			add(field.Value, draft.FromRequest)
		default:
			add(field.Value, m.prompt.From)
			m.Parts[len(m.Parts)-1].Edits = edits
		}
	case field.Name == "tools" && sent && ours != nil:
		own, err := splitTools(m.rules.Dialect, field.Value, maxTools)
		if err != nil {
			return err
		}
		united := mergeTools(m.settings.tools, own)
		if slices.EqualFunc(united, own, func(t jsontext.Value, o namedTool) bool { return string(t) == string(o.tool) }) {
			add(field.Value, draft.FromRequest)
			return nil
		}
		if err := m.Reserve(len(field.Value) + len(ours)); err != nil {
			return err
		}
		add(rawjson.ArrayOf(united...), draft.FromPreset)
	case empty && ours == nil: // the preset says it in another field
	default:
		if ours != nil {
			ours = m.contribution(field.Name, ours)
		}
		switch {
		case ours == nil:
			add(field.Value, draft.FromRequest)
		case !sent:
			add(ours, draft.FromPreset)
		case slices.Contains(memberFields, field.Name) && field.Value.Kind() == '{' && ours.Kind() == '{':
			if merged, added := m.mergeMembers(field.Value, ours); added {
				add(merged, draft.FromPreset)
			} else {
				add(field.Value, draft.FromRequest)
			}
		default:
			add(field.Value, draft.FromRequest)
		}
	}
	return nil
}

// isOverridden reports whether the request has a synonym of a field of the preset. {} and
// [] do not count.
func (m *merger) isOverridden(name string) bool {
	synonym := dialects.Synonyms[m.rules.Dialect][name]
	return synonym != "" && !m.unknown[synonym] && slices.ContainsFunc(m.request.Fields, func(f rawjson.Member) bool {
		return f.Name == synonym && f.Value.Kind() != 'n' && !rawjson.IsEmpty(f.Value)
	})
}

// ensureModel makes sure that the merged request names a model. It takes the model of the
// request, the preset or the workspace. It uses the first model of a list if the gateway or
// the route takes no lists. The preset's list may be missing from the merged request then.
func (m *merger) ensureModel() error {
	var models jsontext.Value
	from := draft.FromPreset
	if listed := m.Value("models"); firstModel(listed) != nil {
		models, from = listed, m.Parts[m.Index("models")].From
	} else if (m.unknown["models"] || !m.rules.TakesField("models")) && !m.rules.Policy.Drops("models") {
		models = rawjson.Find(m.settings.fields, "models")
	}
	isListed := !m.unknown["models"] && firstModel(m.Value("models")) != nil
	if m.unknown["models"] {
		m.Remove("models")
	}
	if model := m.Value("model"); model != nil && !rawjson.IsText(model, "") || isListed {
		return nil
	}
	if first := firstModel(models); first != nil {
		m.Set("model", first, from)
		return nil
	}
	model := m.workspace.textModel
	if m.asksForImages() {
		model = m.workspace.modelOfImages(m.rules.Dialect)
	}
	if model == "" {
		return domain.InvalidAt("/model", "required: neither the request nor the preset nor the workspace names a model")
	}
	m.Set("model", rawjson.Quote(model), draft.FromWorkspace)
	return nil
}

// firstModel returns the first of a list of models, or nil.
func firstModel(models jsontext.Value) jsontext.Value {
	for _, first := range rawjson.Items(models) {
		if first.Kind() == '"' {
			return first
		}
		break
	}
	return nil
}

// fillProviderSort adds the workspace's provider order if the request has none.
func (m *merger) fillProviderSort() {
	if m.workspace.providerSort == "" || m.unknown["provider"] || !m.rules.TakesField("provider") || m.rules.Policy.Drops("provider") {
		return
	}
	sort := rawjson.Quote(m.workspace.providerSort)
	provider := m.Value("provider")
	switch {
	case provider == nil:
		provider = rawjson.ObjectOf(rawjson.NewMember("sort", sort))
	case provider.Kind() != '{', rawjson.Get(provider, "sort") != nil, rawjson.Get(provider, "order") != nil, m.Reserve(len(provider)) != nil:
		return
	default:
		provider = rawjson.With(provider, "sort", sort)
	}
	m.Set("provider", provider, draft.FromWorkspace)
}
