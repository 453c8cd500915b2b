package inference

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// limits are what applies to a request besides a policy.
type limits struct {
	who      domain.Principal
	disabled []string        // the tools that the workspace disables
	opened   map[string]bool // allow_fields of the site
}

// where names the limit for which a request's fields must be known, empty for none. It ends errors.
func (m *merger) where() string {
	switch {
	case m.policy != nil:
		return "where the preset has a policy"
	case m.who.IsLimited():
		return "for a key with limits"
	case len(m.disabled) > 0:
		return "where server tools are disabled"
	}
	return ""
}

// opens reports whether allow_fields of the site or the policy has a field. What is opened is not
// looked into.
func (m *merger) opens(name string) bool {
	return m.opened[name] || m.policy != nil && m.policy.opened[name]
}

// admit checks that a request is JSON that all gateways read alike, and that its fields are known and
// have their forms. Other fields are Invalid, or what the policy says: they are left out, or a
// violation. So nothing behind admit meets a field under another name, or twice.
func (m *merger) admit(sent Request) error {
	where := m.where()
	if where == "" {
		return nil
	}
	if sent.OtherType && !m.request.found { // a merged request goes upstream as JSON, whatever its type
		return domain.InvalidAt("content-type", "must be application/json, with no parameter but charset=utf-8, "+where)
	}
	if m.request.err != nil {
		return m.request.err
	}
	if at := rawjson.FindNotUTF8(sent.Body, "type", "role"); at >= 0 {
		return domain.InvalidAt("", fmt.Sprintf("has a name, type or role that is not UTF-8 at byte %d, which it must be %s", at, where))
	}
	if err := m.admitQuery(sent.Query, where); err != nil {
		return err
	}
	kept := m.request.fields[:0]
	for _, f := range m.request.fields {
		fault := m.faultOf(f)
		switch {
		case fault == "":
			kept = append(kept, f)
		case m.policy == nil:
			return domain.InvalidAt(pointer(f.Name), fault+" "+where)
		case !m.policy.drops(f.Name): // else nobody is told
			m.recordViolation(headerName(f.Name[:min(len(f.Name), maxPointed)]), fault+" "+where, true, f.Name)
		}
	}
	m.request.fields = kept
	return m.checkModels()
}

// faultOf returns what is wrong with a field, or "". Where a request names no preset, it has no field
// that is for presets alone.
func (m *merger) faultOf(f rawjson.Member) string {
	isNull := f.Value.Kind() == 'n'
	switch known := knownFields[f.Name]; {
	case m.opens(f.Name):
	case !isKnown(m.dialect, f.Name), !m.request.found && isForPresets(f.Name) && !isNull:
		return "is not a field that passes"
	case !isNull && !known.fits(f.Value):
		return "must be " + known.want
	}
	return ""
}

// knownParameters are the parameters of a query that are no fields of a request.
var knownParameters = []string{"api-version", "beta"}

// admitQuery returns an Invalid error if a query string has another parameter. LiteLLM takes the model
// from there, before that of the body.
func (m *merger) admitQuery(query, where string) error {
	if query == "" {
		return nil
	}
	parameters, err := url.ParseQuery(query)
	if err != nil {
		return domain.InvalidAt("query", "is malformed, which it must not be "+where)
	}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		_, isField := knownFields[name] // a preset opens none to what it does not limit
		if !slices.Contains(knownParameters, name) && !m.opened[name] && (isField || !m.opens(name)) {
			return domain.InvalidAt("query", headerName(name[:min(len(name), maxPointed)])+" is not a parameter that passes "+where)
		}
	}
	return nil
}

// checkModels returns a Forbidden error if the request names a model that its key may not name.
func (m *merger) checkModels() error {
	patterns := m.who.ModelPatterns()
	if len(patterns) == 0 {
		return nil
	}
	return m.search(m.request.fields, func(u use) error {
		if u.model == "" || m.who.MayNameModel(u.model) {
			return nil
		}
		rule := "must match " + patternList(patterns)
		return &domain.Error{
			Kind: domain.Forbidden, Code: domain.ModelNotAllowed, Message: "Model not allowed: " + u.at + ": " + rule,
			Issues: []domain.Issue{{Path: u.at, Message: rule}},
		}
	})
}

// maxPatternsShown bounds the patterns in an error.
const maxPatternsShown = 4

func patternList(patterns []string) string {
	if more := len(patterns) - maxPatternsShown; more > 0 {
		return fmt.Sprintf("%s or %d more", strings.Join(patterns[:maxPatternsShown], ", "), more)
	}
	return strings.Join(patterns, " or ")
}

// checkTools returns a Forbidden error if the request uses a server tool that its workspace has
// disabled. fields are those that go upstream, also of the preset.
func (m *merger) checkTools(fields []rawjson.Member) error {
	if len(m.disabled) == 0 {
		return nil
	}
	find := func(fields []rawjson.Member, tools []string) (found use, err error) {
		err = m.search(fields, func(u use) error {
			if u.tool != "" && slices.Contains(tools, u.tool) {
				found = u
				return errFound
			}
			return nil
		})
		return found, err
	}
	used, err := find(fields, m.disabled)
	if used.tool == "" {
		return err
	}
	disabled := &domain.Error{Kind: domain.Forbidden, Code: domain.ToolDisabled, Message: "Server tool " + used.tool + " is disabled in this workspace"}
	if sent, _ := find(m.request.fields, []string{used.tool}); sent.tool != "" {
		issue := domain.Issue{Path: sent.at, Message: "is disabled in this workspace"}
		if sent.brought {
			issue.Message = "uses " + sent.tool + " unless it is given other tools, and that is disabled in this workspace"
		}
		disabled.Issues = []domain.Issue{issue}
	}
	return disabled
}

// checkMerged is checkTools for a merged request, with a template's messages.
func (m *merger) checkMerged() error {
	if len(m.disabled) == 0 {
		return nil
	}
	fields := make([]rawjson.Member, 0, len(m.parts)+1)
	for _, p := range m.parts {
		fields = append(fields, p.Member)
	}
	if len(m.messages) > 0 {
		messages := slices.Concat([]jsontext.Value{{'['}}, m.messages, []jsontext.Value{{']'}})
		if err := m.reserve(sizeOf([]part{{edits: []edit{{texts: messages}}}})); err != nil {
			return err
		}
		fields = append(fields, rawjson.Member{Name: "input", Value: slices.Concat(messages...)})
	}
	return m.checkTools(fields)
}
