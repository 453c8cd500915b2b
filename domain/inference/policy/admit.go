package policy

import (
	"fmt"
	"maps"
	"net/url"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/dialects"
	"github.com/caddy-presets/caddy-presets/domain/inference/draft"
	"github.com/caddy-presets/caddy-presets/domain/inference/prompts"
	"github.com/caddy-presets/caddy-presets/domain/inference/reference"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// Check applies to one request what limits it: a policy, a key's limits and disabled tools.
type Check struct {
	*draft.Draft
	Dialect domain.Dialect
	Request *reference.Request
	Who     domain.Principal
	// Disabled are the tools that the workspace disables, and Opened are allow_fields of the site.
	Disabled []string
	Opened   map[string]bool

	// Policy is that of the preset, nil for none. Stored are the fields of the preset, and Takes those that
	// the route takes, nil for all.
	Policy *Policy
	Stored []rawjson.Member
	Takes  []string
	Prompt *prompts.System // of the preset

	// Broken names the policy's rules that changed the request, each once.
	Broken []string
	// issues are the violations of a refusing policy, at most maxBrokenIssues.
	issues []domain.Issue
	// touched are the fields that break a rule. hadTools tells that tools of the conversation were left out.
	touched  []string
	hadTools bool
}

// where names the limit for which a request's fields must be known, empty for none. It ends errors.
func (c *Check) where() string {
	switch {
	case c.Policy != nil:
		return "where the preset has a policy"
	case c.Who.IsLimited():
		return "for a key of some presets or models"
	case len(c.Disabled) > 0:
		return "where server tools are disabled"
	}
	return ""
}

// TakesField reports whether the route takes a field from the preset or workspace.
func (c *Check) TakesField(name string) bool {
	return c.Takes == nil || name == "model" || slices.Contains(c.Takes, name)
}

// Setting returns the preset's value of a field, nil where it has none that the route takes.
func (c *Check) Setting(name string) jsontext.Value {
	if !c.TakesField(name) {
		return nil
	}
	return rawjson.Find(c.Stored, name)
}

// opens reports whether allow_fields of the site or the policy has a field. What is opened is not
// looked into.
func (c *Check) opens(name string) bool {
	return c.Opened[name] || c.Policy != nil && c.Policy.opened[name]
}

// Admit checks that a request is JSON that all gateways read alike, and that its fields are known and
// have their forms. Other fields are Invalid, or what the policy says: they are left out, or a
// violation. So nothing behind Admit meets a field under another name, or twice.
func (c *Check) Admit(body []byte, query string, isOtherType bool) error {
	where := c.where()
	if where == "" {
		return nil
	}
	if isOtherType && !c.Request.Found { // a merged request goes upstream as JSON, whatever its type
		return domain.InvalidAt("content-type", "must be application/json, with no parameter but charset=utf-8, "+where)
	}
	if c.Request.Err != nil {
		return c.Request.Err
	}
	if at := rawjson.FindNotUTF8(body); at >= 0 {
		return domain.InvalidAt("", fmt.Sprintf("has a name that is not UTF-8 at byte %d, which it must be %s", at, where))
	}
	if err := c.admitQuery(query, where); err != nil {
		return err
	}
	kept := c.Request.Fields[:0]
	for _, f := range c.Request.Fields {
		fault := c.faultOf(f)
		switch {
		case fault == "":
			kept = append(kept, f)
		case c.Policy == nil:
			return domain.InvalidAt(dialects.Pointer(f.Name), fault+" "+where)
		case !c.Policy.Drops(f.Name): // else nobody is told
			c.recordViolation(dialects.HeaderName(f.Name[:min(len(f.Name), dialects.MaxPointed)]), fault+" "+where, true, f.Name)
		}
	}
	c.Request.Fields = kept
	return c.checkModels()
}

// faultOf returns what is wrong with a field, or "". Where a request names no preset, it has no field
// that is for presets alone.
func (c *Check) faultOf(f rawjson.Member) string {
	isNull := f.Value.Kind() == 'n'
	switch form, isKnown := dialects.FormOf(c.Dialect, f.Name); {
	case c.opens(f.Name):
	case !isKnown, !c.Request.Found && c.isForPresets(f.Name) && !isNull:
		return "is not a field that passes"
	case !isNull && !form.Fits(f.Value):
		return "must be " + form.Want
	}
	return ""
}

// KnownFields returns the names of the fields that requests of a dialect may have where a policy, a
// key's limits or disabled tools apply, sorted.
func KnownFields(dialect domain.Dialect) []string {
	return dialects.Names(dialect)
}

// knownParameters are the parameters of a query that are no fields of a request.
var knownParameters = []string{"api-version", "beta"}

// admitQuery returns an Invalid error if a query string has another parameter. LiteLLM takes the model
// from there, before that of the body.
func (c *Check) admitQuery(query, where string) error {
	if query == "" {
		return nil
	}
	parameters, err := url.ParseQuery(query)
	if err != nil {
		return domain.InvalidAt("query", "is malformed, which it must not be "+where)
	}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		isField := dialects.Fields[name].Form != nil // a preset opens none to what it does not limit
		if !slices.Contains(knownParameters, name) && !c.Opened[name] && (isField || !c.opens(name)) {
			return domain.InvalidAt("query", dialects.HeaderName(name[:min(len(name), dialects.MaxPointed)])+" is not a parameter that passes "+where)
		}
	}
	return nil
}

// checkModels returns a Forbidden error if the request names a model that its key may not name.
func (c *Check) checkModels() error {
	if len(c.Who.ModelPatterns()) == 0 {
		return nil
	}
	found := c.search(c.Request.Fields, func(u use) bool { return u.model != "" && !c.Who.MayNameModel(u.model) })
	if found == nil || found.mistake != "" {
		return c.mistake(found)
	}
	const rule = "is not a model that the key may name, or a tool with such a model"
	return &domain.Error{
		Kind: domain.Forbidden, Code: domain.ModelNotAllowed, Message: "Model not allowed: " + found.at + ": " + rule,
		Issues: []domain.Issue{{Path: found.at, Message: rule}},
	}
}

// mistake returns the error for a mistake that a search found, if it found one.
func (c *Check) mistake(found *finding) error {
	if found == nil {
		return nil
	}
	return domain.InvalidAt(found.at, found.mistake+" "+c.where())
}

// CheckItems returns an Invalid error unless all gateways read messages of a preset's template alike.
func (c *Check) CheckItems(messages jsontext.Value) error {
	if items := dialects.Fields["messages"].Form; !items.Fits(messages) {
		return domain.InvalidAt("/preset", "has messages that must be "+items.Want+" "+c.where())
	}
	return nil
}

// CheckTools returns a Forbidden error if the request uses a server tool that its workspace has
// disabled. fields are those that go upstream, also of the preset.
func (c *Check) CheckTools(fields []rawjson.Member) error {
	if len(c.Disabled) == 0 {
		return nil
	}
	find := func(fields []rawjson.Member, tools ...string) *finding {
		return c.search(fields, func(u use) bool { return u.tool != "" && slices.Contains(tools, u.tool) })
	}
	used := find(fields, c.Disabled...)
	if used == nil || used.mistake != "" {
		return c.mistake(used)
	}
	disabled := &domain.Error{Kind: domain.Forbidden, Code: domain.ToolDisabled, Message: "Server tool " + used.tool + " is disabled in this workspace"}
	if sent := find(c.Request.Fields, used.tool); sent != nil && sent.mistake == "" {
		disabled.Issues = []domain.Issue{{Path: sent.at, Message: "is disabled in this workspace"}}
	}
	return disabled
}
