package inference

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// enforceParts enforces the policy on objects in the request that gateways may merge into
// it. These are mergedFields, and fallbacks with settings of their own. It leaves out
// overridingFields, mergedFields that are no objects, and references to presets and prompts that
// were not resolved. Models must be none.
func (e *enforcement) enforceParts() error {
	kept := e.fields[:0]
	for i := range e.fields {
		f := &e.fields[i]
		name := foldName(f.Name)
		if isForPresets(name) {
			if e.policy.promptLock != "" && name != "preset" && f.Value.Kind() != 'n' {
				e.recordViolation(e.policy.promptLock, lockedMessage, true, f.Name)
			}
			e.changed = true
			continue
		}
		kind := f.Value.Kind()
		isMerged := slices.Contains(mergedFields, name)
		if slices.Contains(overridingFields, name) || isMerged && kind != '{' && kind != 'n' { // LiteLLM takes a list of pairs
			e.changed = true
			continue
		}
		hasModels := e.hasModels(name, f.Value)
		if f.from == FromRequest {
			within := name
			if hasModels {
				within = "fallbacks"
			}
			if place := findReferenceIn(rawjson.Member{Name: within, Value: f.Value}); place != "" {
				return domain.InvalidAt(e.at+pointer(f.Name)+place[len("/")+len(within):], "must not refer to a preset")
			}
		}
		if err := e.checkModels(f, slices.Contains(modelFields, name), hasModels); err != nil {
			return err
		}
		var err error
		switch {
		case kind == '{' && (hasModels || isMerged):
			err = e.enforcePart(f, hasModels, f.Name)
		case kind == '[' && hasModels:
			err = e.enforceEach(f)
		}
		if err != nil {
			return err
		}
		if hasModels && e.at != "" && f.from == FromPolicy && isEmptyContainer(f.Value) { // no entry is left
			continue
		}
		kept = append(kept, *f)
	}
	e.fields = kept
	return nil
}

// limitRestored enforces limits on the preset's lists of models that came back after
// enforceParts. A list of the request has met them already.
func (e *enforcement) limitRestored() error {
	for i := range e.fields {
		if f := &e.fields[i]; f.from == FromPolicy && f.Value.Kind() == '[' && e.hasModels(f.Name, f.Value) {
			if err := e.enforceEach(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// hasModels reports whether a field has a list of models, or one alone. In an entry of such
// a list, it may also have the models that replace the one of its name.
func (e *enforcement) hasModels(name string, value jsontext.Value) bool {
	if name == "models" || slices.Contains(fallbackFields, name) {
		return true
	}
	if !e.isEntry || value.Kind() != '[' || !mayBeReplaced(name) {
		return false
	}
	for _, item := range rawjson.Items(value) {
		if kind := item.Kind(); kind == '"' || kind == '{' {
			return true
		}
	}
	return false
}

// hidesModels reports whether an entry of a list of models replaces a model by what is no list.
// LiteLLM reads its first member, and would take one name or the names of an object for a list.
// before is the first member that was sent: a key's limits were checked with it.
func (e *enforcement) hidesModels(before string) bool {
	if !e.isEntry || !e.isSentPart || len(e.fields) == 0 {
		return false
	}
	first := e.fields[0].Name
	if !e.policy.limitsModels && e.policy.toolsName == "" && first == before {
		return false
	}
	return mayBeReplaced(first) && slices.ContainsFunc(e.fields, func(f part) bool {
		return f.Name == first && (f.Value.Kind() == '"' || f.Value.Kind() == '{')
	})
}

// checkModels checks and counts the models that a field of the request names, without those of
// entries that are objects. enforcePart counts these.
func (e *enforcement) checkModels(f *part, isModel, hasModels bool) error {
	if f.from != FromRequest || !isModel && !hasModels {
		return nil
	}
	at := e.at + pointer(f.Name)
	switch f.Value.Kind() {
	case '"':
		return e.checkModel(f.Value, at)
	case '[':
		for i, item := range rawjson.Items(f.Value) {
			if item.Kind() == '{' {
				continue
			}
			if err := e.checkModel(item, at+"/"+strconv.Itoa(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkModel checks and counts a value in place of a model. It returns an Invalid error for a model
// with the name of a field, for a name that is too long, and for too many models.
func (m *merger) checkModel(value jsontext.Value, at string) error {
	if value.Kind() != '"' {
		return m.countModels(at, 1)
	}
	model, _ := rawjson.Head(value, maxReference)
	if len(model) > maxReference {
		return domain.InvalidAt(at, "must have at most "+strconv.Itoa(maxReference)+" bytes")
	}
	if err := m.countModels(at, modelsIn(model)); err != nil {
		return err
	}
	if isFieldName(model) {
		return domain.InvalidAt(at, fieldNameMessage)
	}
	return nil
}

// countModels counts models that the request names at a place. It returns an Invalid error
// if these are too many.
func (m *merger) countModels(at string, count int) error {
	if m.named += count; m.named > maxModels {
		return domain.InvalidAt(at, fmt.Sprintf("must not bring the request above %d models, by the preset's policy", maxModels))
	}
	return nil
}

// enforceEach enforces the policy on the objects in a list. It leaves out objects
// that become empty.
func (e *enforcement) enforceEach(f *part) error {
	var items []jsontext.Value
	changed := false
	for i, item := range rawjson.Items(f.Value) {
		if item.Kind() == '{' {
			one := part{Member: rawjson.Member{Name: f.Name, Value: item}, from: f.from}
			if err := e.enforcePart(&one, true, f.Name, strconv.Itoa(i)); err != nil {
				return err
			}
			if !bytes.Equal(one.Value, item) {
				changed = true
				if isEmptyContainer(one.Value) {
					continue
				}
			}
			item = one.Value
		}
		items = append(items, item)
	}
	if !changed {
		return nil
	}
	if err := e.reserve(len(f.Value)); err != nil {
		return err
	}
	e.replace(f, rawjson.ArrayOf(items...))
	return nil
}

// enforcePart enforces the policy on f, an object within the request at a path.
func (e *enforcement) enforcePart(f *part, isEntry bool, path ...string) error {
	inner := &enforcement{
		merger: e.merger, at: e.at, depth: e.depth + 1, isEntry: isEntry,
		isSentPart: e.isSentPart || e.at == "" && f.from == FromRequest,
	}
	for _, name := range path {
		inner.at += pointer(name)
	}
	if inner.depth > maxPartDepth {
		return domain.InvalidAt(inner.at, "is nested too deeply for the preset's policy")
	}
	for m, err := range usualNames.Object(f.Value) {
		if err != nil {
			return domain.InvalidAt(inner.at, "is not JSON that can be read")
		}
		if len(inner.fields) == maxRequestFields { // each takes much more memory than its bytes
			return domain.InvalidAt(inner.at, fmt.Sprintf("must have at most %d fields, by the preset's policy", maxRequestFields))
		}
		if inner.isSentPart {
			e.partFields++
		}
		if e.partFields > maxPartFields {
			return domain.InvalidAt(inner.at, fmt.Sprintf("must not bring the parts of the request above %d fields, by the preset's policy", maxPartFields))
		}
		inner.fields = append(inner.fields, part{Member: m, from: f.from})
	}
	first := ""
	if len(inner.fields) > 0 {
		first = inner.fields[0].Name
	}
	before := e.named
	if err := inner.enforceParts(); err != nil {
		return err
	}
	if isEntry && f.from == FromRequest && e.named == before { // it takes memory as if it named one
		if err := e.countModels(inner.at, 1); err != nil {
			return err
		}
	}
	if inner.isSentPart {
		if name := e.policy.promptLock; name != "" {
			inner.fields = slices.DeleteFunc(inner.fields, func(m part) bool {
				prompt := mayHavePrompt(m.Name)
				if prompt && m.Value.Kind() != 'n' {
					inner.recordViolation(name, lockedMessage, true, m.Name)
				}
				inner.changed = inner.changed || prompt
				return prompt
			})
		}
		for i := range inner.fields {
			f := &inner.fields[i]
			if err := inner.limitConversation(&f.Member); err != nil {
				return err
			}
		}
		inner.each(e.policy.lockedBy, inner.lock)
		if err := inner.limitModels(); err != nil {
			return err
		}
	}
	inner.each(e.policy.limitedBy, inner.limit)
	if inner.hidesModels(first) {
		e.recordViolation("models", notAListMessage, true, path...)
		e.replace(f, object())
		return nil
	}
	if !inner.changed {
		return nil
	}
	if err := e.reserve(sizeOf(inner.fields)); err != nil {
		return err
	}
	e.replace(f, assemble(inner.fields))
	return nil
}
