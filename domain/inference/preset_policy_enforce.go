package inference

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// maxBrokenIssues bounds the places that a refusal names. maxPartDepth bounds how many parts are
// in each other. maxRenamed bounds a value that is compared with the preset's under another name, in bytes.
// maxCorrected bounds the numbers that are replaced with the nearest. maxPartFields bounds the fields
// of all sent parts together.
const (
	maxBrokenIssues = 20
	maxPartDepth    = 4
	maxRenamed      = 4 << 10
	maxCorrected    = 4 << 10
	maxPartFields   = 64 << 10
)

const (
	lockedMessage   = "is locked by the preset's policy"
	boundedMessage  = "is outside of the bounds of the preset's policy"
	modelMessage    = "is a model that the preset's policy does not allow"
	notATextMessage = "must be the name of a model, by the preset's policy"
	notAListMessage = "must be a list of models, by the preset's policy"
)

// enforcement enforces the policy on the fields of one object. That is the merged request,
// or a part of it that gateways may merge into the request.
type enforcement struct {
	*merger
	fields []part
	// at is the JSON Pointer of the object, empty for the merged request. depth is how many
	// objects it is in. A part has no values of the preset.
	at    string
	depth int
	// isSentPart tells that the object is a part that the request has.
	isSentPart bool
	// isEntry tells that the object is an entry of a list of models. The list's rules are
	// about its model.
	isEntry bool
	changed bool
}

// enforce enforces the policy on the merged request. A request that breaks it is Forbidden
// if the policy says so.
func (m *merger) enforce() error {
	if m.policy == nil {
		return nil
	}
	hadTools := m.hadTools || m.index("tools") >= 0
	for _, name := range m.relocked {
		if i := m.index(name); i >= 0 {
			m.parts[i].from = FromPolicy
		}
	}
	e := &enforcement{merger: m, fields: m.parts}
	if err := e.enforceParts(); err != nil {
		return err
	}
	e.each(m.policy.lockedBy, e.lock)
	m.parts = e.fields
	m.restoreLocked()
	e.fields = m.parts
	if err := e.limitModels(); err != nil {
		return err
	}
	if err := e.limitRestored(); err != nil {
		return err
	}
	e.each(m.policy.limitedBy, e.limit)
	m.parts = e.fields
	if err := m.limitUnknownModels(); err != nil {
		return err
	}
	if hadTools && m.index("tools") < 0 { // gateways refuse a choice of no tools
		m.parts = slices.DeleteFunc(m.parts, func(p part) bool {
			return slices.Contains(toolUseFields, p.Name) && m.sentSetting(p.Name) != nil // reconcile does the preset's
		})
	}
	return m.refusal()
}

// refusal returns the error for a request that broke the policy, if the policy refuses it.
func (m *merger) refusal() error {
	if m.issues == nil {
		return nil
	}
	e := domain.InvalidIssues(m.issues...)
	e.Kind, e.Code = domain.Forbidden, domain.PolicyBroken
	e.Message = strings.Replace(e.Message, "Invalid request parameters", "Request breaks the policy of the preset", 1)
	return e
}

// recordViolation records that a field, or its member, breaks a rule. sent tells that the value
// is the request's.
func (e *enforcement) recordViolation(name, message string, sent bool, path ...string) {
	if !slices.Contains(e.broken, name) {
		e.broken = append(e.broken, name)
	}
	if !sent || !e.policy.refuse || len(e.issues) == maxBrokenIssues {
		return
	}
	if message != modelMessage && message != notATextMessage && message != notAListMessage {
		message += " (" + name + ")"
	}
	issue := domain.Issue{Path: e.at, Message: message}
	for _, member := range path {
		issue.Path += pointer(member)
	}
	if !slices.Contains(e.issues, issue) {
		e.issues = append(e.issues, issue)
	}
}

// own returns the preset's value of a field.
func (e *enforcement) own(field string) jsontext.Value {
	if e.at != "" {
		return nil
	}
	return e.setting(field)
}

// isSent reports whether the request itself has a field, and says something with it.
func (e *enforcement) isSent(f *part) bool {
	value := f.Value
	switch {
	case e.at != "":
		if !e.isSentPart {
			return false
		}
	case f.from != FromRequest:
		value = rawjson.Find(e.request.fields, f.Name)
	}
	return value != nil && value.Kind() != 'n' && !isEmptyContainer(value) && (f.Name != "model" || !isEmptyText(value))
}

// each applies rules to the fields that they are about. apply returns false for a field to
// be left out. A null is left out where it could replace the preset's value: in a part, and
// under a name in another letter case.
func (e *enforcement) each(rules map[string][]target, apply func(f *part, t target) bool) {
	if len(rules) == 0 {
		return
	}
	kept := e.fields[:0]
	for i := range e.fields {
		f := &e.fields[i]
		keep, name := true, foldName(f.Name)
		if e.isEntry && name == "model" {
			name = ""
		}
		for _, t := range rules[name] {
			if keep = f.Value.Kind() != 'n' || !e.isBeside(f); keep {
				keep = apply(f, t)
			}
			if !keep {
				e.changed = true
				break
			}
		}
		if keep {
			kept = append(kept, *f)
		}
	}
	e.fields = kept
}

// replace gives a field another value, and returns false for none.
func (e *enforcement) replace(f *part, value jsontext.Value) bool {
	f.Value, f.from = value, FromPolicy
	e.changed = true
	return value != nil
}

// lock gives a field the preset's value.
func (e *enforcement) lock(f *part, t target) bool {
	var want jsontext.Value
	if f.Name == t.field {
		want = e.own(t.field)
	}
	switch {
	case e.at == "" && f.from == FromPreset && !e.isSent(f):
		if t.member == "" || rawjson.Get(f.Value, t.member) == nil { // the request said it in another field
			f.Value = e.own(f.Name)
		}
		return true
	case t.member != "" && e.isBeside(f) && e.presetAt(t.place) != nil:
		if e.hasOnce(f.Value, t.place) {
			return true
		}
		e.recordViolation(t.name, lockedMessage, e.isSent(f), f.Name)
		return false
	case t.member != "":
		return e.lockMember(f, t, rawjson.Get(want, t.member), want)
	case bytes.Equal(f.Value, want), t.field == "plugins" && t.name == e.policy.toolsName && !hasToolPlugin(f.Value) && !hasToolPlugin(want):
		return true
	}
	if e.isSent(f) && !isSameJSON(f.Value, want) && !e.isOwn(f.Value, t.place) {
		e.recordViolation(t.name, lockedMessage, true, f.Name)
	}
	return e.replace(f, want)
}

func (e *enforcement) lockMember(f *part, t target, want, whole jsontext.Value) bool {
	sent, isFirst := e.isSent(f), true // many others may follow, so only the first is compared
	return e.editMember(f, t, whole, func(name string, value jsontext.Value) jsontext.Value {
		if sent && value.Kind() != 'n' && (!isFirst || !isSameJSON(value, want) && !e.isOwn(value, t.place)) {
			e.recordViolation(t.name, lockedMessage, true, f.Name, name)
		}
		isFirst = false
		if name != t.member {
			return nil
		}
		placed := want
		want = nil // a second member of the name is left out
		return placed
	})
}

// editMember gives each member that t is about the value that edit returns, or leaves it
// out for nil. A field that is no object gets the value instead. So does a locked one
// without any members left. editMember returns false for a field to be left out.
func (e *enforcement) editMember(f *part, t target, instead jsontext.Value, edit func(name string, value jsontext.Value) jsontext.Value) bool {
	switch kind := f.Value.Kind(); {
	case kind == 'n', kind == '"' && t.place == serialPlace: // a choice of tools is a text in most dialects
		return true
	case kind == '{':
	default:
		if t.kind != dropRule {
			e.recordViolation(t.name, lockedMessage, e.isSent(f), f.Name)
		}
		if instead.Kind() != '{' {
			return false
		}
		e.replace(f, instead)
	}
	var edited []byte // nil as long as nothing changes
	same := 0
	for m, err := range usualNames.Object(f.Value) {
		if err != nil { // it was read before
			return false
		}
		value := m.Value
		if foldName(m.Name) == t.member {
			value = edit(m.Name, m.Value)
		}
		if edited == nil && bytes.Equal(value, m.Value) {
			same++
			continue
		}
		if edited == nil {
			edited = e.copyMembers(f.Value, same)
		}
		if value != nil {
			m.Value = value
			edited = e.appendMember(edited, m)
		}
		if e.refused != nil {
			return true
		}
	}
	isEmpty := len(edited) == len("{")
	switch {
	case edited == nil:
		return true
	case isEmpty && t.kind == lockRule:
		return e.replace(f, instead)
	case isEmpty:
		return false
	}
	return e.replace(f, append(edited, '}'))
}

// copyMembers returns a copy of the first members of an object, without a last brace. There is
// room for all of them.
func (e *enforcement) copyMembers(object jsontext.Value, first int) []byte {
	if e.reserve(len(object)) != nil {
		return nil
	}
	copied := append(make([]byte, 0, len(object)), '{')
	for m, err := range usualNames.Object(object) {
		if err != nil || first == 0 {
			break
		}
		copied = appendMember(copied, m)
		first--
	}
	return copied
}

// appendMember is the function of this name, but takes memory if there is no more room.
func (e *enforcement) appendMember(object []byte, m rawjson.Member) []byte {
	size := len(object) + len(m.Quoted) + len(m.Value) + len(`,:}`)
	if size > cap(object) {
		if e.reserve(2*size) != nil {
			return object
		}
		object = append(make([]byte, 0, 2*size), object...)
	}
	return appendMember(object, m)
}

// restoreLocked puts the preset's locked values where the request left them out.
func (m *merger) restoreLocked() {
	for _, r := range m.policy.locks {
		for _, at := range r.places {
			whole := m.setting(at.field)
			if whole == nil || at.field == "plugins" && r.name == m.policy.toolsName {
				continue
			}
			i := m.index(at.field)
			want := rawjson.Get(whole, at.member)
			synonym := synonyms[m.dialect][at.field]
			switch {
			case at.member != "" && want == nil:
			case i < 0 && at.member != "" && synonym != "" && m.index(synonym) >= 0: // which replaces the other members
				m.set(at.field, object(newMember(at.member, want)), FromPolicy)
			case i < 0, m.parts[i].Value.Kind() == 'n':
				m.set(at.field, whole, FromPolicy)
			case at.member == "" || rawjson.Get(m.parts[i].Value, at.member) != nil:
			case at == serialPlace && textOf(m.parts[i].Value, "type") == "none": // it has no such member
			case m.parts[i].Value.Kind() == '{' && m.reserve(len(m.parts[i].Value)+len(want)) == nil:
				m.set(at.field, withField(m.parts[i].Value, at.member, want), FromPolicy)
			}
		}
	}
}

// limit makes a field meet a bound, or drops it.
func (e *enforcement) limit(f *part, t target) bool {
	switch {
	case t.kind == boundRule && t.member == "":
		value := e.bounded(f, t, f.Value, e.ownScalar(t.places), f.Name)
		return bytes.Equal(value, f.Value) || e.replace(f, value)
	case t.kind == boundRule:
		var instead jsontext.Value
		if f.Value.Kind() != '{' && f.Name == t.field {
			instead = e.own(t.field)
		}
		ours := e.ownScalar(t.places) // once, since the members can be many
		return e.editMember(f, t, instead, func(name string, value jsontext.Value) jsontext.Value {
			if t.place == serialPlace { // the bound is of what it switches off
				return negate(e.bounded(f, t, negate(value), negate(ours), f.Name, name))
			}
			return e.bounded(f, t, value, ours, f.Name, name)
		})
	case t.member != "":
		return e.editMember(f, t, nil, func(string, jsontext.Value) jsontext.Value { return nil })
	case t.field == "plugins" && t.name == e.policy.toolsName:
		return !hasToolPlugin(f.Value)
	}
	return false
}

// bounded returns an allowed value for one in f. That is itself, else the nearest number,
// else ours, the preset's value, else nil.
func (e *enforcement) bounded(f *part, t target, value, ours jsontext.Value, path ...string) jsontext.Value {
	if value.Kind() == 'n' {
		return value
	}
	name := t.disallows(value)
	if name == "" {
		return value
	}
	sent := e.isSent(f) && (f.from == FromRequest || !bytes.Equal(value, ours)) // else a lock put it there
	e.recordViolation(name, boundedMessage, sent, path...)
	if nearest := e.nearest(t, value); nearest != nil {
		return nearest
	}
	if ours != nil && t.disallows(ours) != "" {
		return e.nearest(t, ours)
	}
	return ours
}

// nearest is rule.nearest for the first maxCorrected numbers. Each is compared with all numbers of
// the rule, so the request is refused for further ones.
func (m *merger) nearest(t target, value jsontext.Value) jsontext.Value {
	if _, ok := readNumber(value); !ok {
		return nil
	}
	if m.corrected++; m.corrected > maxCorrected {
		if m.refused == nil {
			m.refused = domain.InvalidAt("", fmt.Sprintf("must not have more than %d numbers outside of the bounds of the preset's policy", maxCorrected))
		}
		return nil
	}
	return t.nearest(value)
}

// isBeside reports whether a gateway may put a field into the place of the preset's: it is in a
// part, or its name has another letter case. Gateways replace whole fields, not their members.
func (e *enforcement) isBeside(f *part) bool {
	return e.isSentPart || e.at == "" && f.Name != foldName(f.Name)
}
