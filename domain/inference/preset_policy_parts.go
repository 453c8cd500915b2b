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
// it. These are extra_body, and fallbacks with settings of their own. It leaves out
// references to presets and prompts that were not resolved. Models must be none.
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
		if f.from == FromRequest {
			if place := findReferenceIn(rawjson.Member{Name: name, Value: f.Value}); place != "" {
				return domain.InvalidAt(e.at+pointer(f.Name)+place[len("/")+len(name):], "must not refer to a preset")
			}
		}
		var err error
		switch {
		case name == "extra_body" && f.Value.Kind() == '{':
			err = e.enforcePart(f, false, f.Name)
		case (name == "fallbacks" || name == "models") && f.Value.Kind() == '[':
			if err = checkModels(f.Value, e.at+pointer(f.Name)); err == nil {
				err = e.enforceEach(f)
			}
		}
		if err != nil {
			return err
		}
		kept = append(kept, *f)
	}
	e.fields = kept
	return nil
}

// checkModels returns an Invalid error for a list of too many models.
func checkModels(list jsontext.Value, at string) error {
	for i := range rawjson.Items(list) {
		if i == maxModels {
			return domain.InvalidAt(at, fmt.Sprintf("must have at most %d entries, by the preset's policy", maxModels))
		}
	}
	return nil
}

// enforceEach enforces the policy on the objects in a list.
func (e *enforcement) enforceEach(f *part) error {
	var items []jsontext.Value
	changed := false
	for i, item := range rawjson.Items(f.Value) {
		if item.Kind() == '{' {
			one := part{Member: rawjson.Member{Name: f.Name, Value: item}, from: f.from}
			if err := e.enforcePart(&one, true, f.Name, strconv.Itoa(i)); err != nil {
				return err
			}
			changed = changed || !bytes.Equal(one.Value, item)
			item = one.Value
		}
		items = append(items, item)
	}
	if !changed {
		return nil
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
	for m, err := range rawjson.Object(f.Value) {
		if err != nil {
			return domain.InvalidAt(inner.at, "is not JSON that can be read")
		}
		if len(inner.fields) == maxRequestFields { // each takes much more memory than its bytes
			return domain.InvalidAt(inner.at, fmt.Sprintf("must have at most %d fields, by the preset's policy", maxRequestFields))
		}
		inner.fields = append(inner.fields, part{Member: m, from: f.from})
	}
	if err := inner.enforceParts(); err != nil {
		return err
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
		inner.each(e.policy.lockedBy, inner.lock)
		if !isEntry {
			inner.limitModels()
		}
	}
	inner.each(e.policy.limitedBy, inner.limit)
	if !inner.changed {
		return nil
	}
	if err := e.reserve(sizeOf(inner.fields)); err != nil {
		return err
	}
	e.replace(f, assemble(inner.fields))
	return nil
}

// hasToolPlugin reports whether plugins use a server tool.
func hasToolPlugin(plugins jsontext.Value) bool {
	return plugins != nil && mayUseServerTool(object(newMember("plugins", plugins)))
}
