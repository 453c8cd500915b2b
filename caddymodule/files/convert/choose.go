package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// assemble makes presets of prompts, sorted by slug, and collects what the report has of them.
func (c *conversion) assemble(prompts []*prompt) (*files.Set, []Written, error) {
	schemas, err := schema.Load()
	if err != nil {
		return nil, nil, err
	}
	workspace := files.Workspace{Slug: c.options.Workspace}
	all := []Written{}
	taken := make(map[string]bool) // in small letters: files that differ only in case are one file in places
	for _, p := range prompts {
		slug := slugOf(p.name)
		preset, written, ok := c.preset(schemas, p, slug)
		if folded := strings.ToLower(slug); ok && taken[folded] {
			p.refuse(node{}, "another prompt of the input has its slug "+slug)
		} else if ok {
			taken[folded] = true
			workspace.Presets = append(workspace.Presets, preset)
			all = append(all, written)
		}
		for _, e := range p.entries {
			e.Prompt = p.name
			c.entries = append(c.entries, e)
		}
	}
	slices.SortFunc(workspace.Presets, func(a, b files.Preset) int { return cmp.Compare(a.Slug, b.Slug) })
	slices.SortFunc(all, func(a, b Written) int { return cmp.Compare(a.Slug, b.Slug) })
	set := &files.Set{}
	if len(workspace.Presets) > 0 {
		set.Workspaces = append(set.Workspaces, workspace)
	}
	return set, all, nil
}

// preset makes the preset of a prompt. It is not ok if nothing can be written.
func (c *conversion) preset(schemas *schema.Schemas, p *prompt, slug string) (preset files.Preset, written Written, ok bool) {
	if len(p.versions) == 0 {
		if !p.refused {
			p.refuse(node{}, "has no version")
		}
		return preset, written, false
	}
	if p.hasRepeated() {
		return preset, written, false
	}
	chosen := p.choose()
	series, others := []*version{chosen}, p.unread
	for _, v := range p.versions {
		switch {
		case v == chosen:
		case c.options.AllVersions:
			series = slices.Insert(series, len(series)-1, v)
		default:
			others = append(others, numberOr(v.number, "without a number"))
		}
	}
	if len(others) > 0 {
		p.leave(node{}, "other versions are not taken without --all-versions: "+files.ShortList(others))
	}
	numbers := make(map[*version]files.Number)
	for _, v := range series {
		built, ok := v.build(schemas)
		for _, e := range v.entries {
			e.Version = v.number
			p.entries = append(p.entries, e)
		}
		switch {
		case !ok:
			continue
		case v == chosen:
			preset.Version = built
			numbers[v] = files.Latest
		default:
			built.Message = p.messageOf(v)
			preset.Earlier = append(preset.Earlier, built)
			numbers[v] = files.Number(len(preset.Earlier))
		}
	}
	if _, ok := numbers[chosen]; !ok {
		return preset, written, false
	}
	if text, _ := chosen.message.text(); text != "" {
		p.about(chosen, LeftOut, chosen.message, "has no place in a file: give it to caddy presets apply as --message")
	}
	p.reportNumbers(numbers, len(preset.Earlier)+1)
	preset.Workspace, preset.Slug, preset.Status = c.options.Workspace, slug, domain.PresetActive
	preset.File = preset.Workspace + "/" + slug + ".yaml"
	if p.disabled {
		preset.Status = domain.PresetDisabled
	}
	preset.Labels = p.keepLabels(numbers)
	p.describe(schemas, &preset)
	return preset, Written{
		Prompt: p.name, Workspace: preset.Workspace, Slug: slug, Version: chosen.number, Versions: len(preset.Earlier) + 1,
	}, true
}

// hasRepeated reports whether two versions have one number, and refuses the prompt then: only the
// source can tell which of them is meant.
func (p *prompt) hasRepeated() (repeated bool) {
	seen := make(map[int]bool)
	for _, v := range p.versions {
		if seen[v.number] && (v.number > 0 || p.oneUnnumbered) {
			p.refuse(v.place, "has "+numberOr(v.number, "no number")+" as its version, as another entry has: neither is taken")
			repeated = true
		}
		seen[v.number] = true
	}
	return repeated
}

// choose returns the version that requests get.
func (p *prompt) choose() *version {
	slices.SortStableFunc(p.versions, func(a, b *version) int { return cmp.Compare(a.number, b.number) })
	if len(p.versions) > 1 && p.versions[0].number == 0 && !p.oneUnnumbered {
		p.change(node{}, "the input does not number the versions: their order in the input is taken")
	}
	last := func(is func(v *version) bool) *version {
		for _, v := range slices.Backward(p.versions) {
			if is(v) {
				return v
			}
		}
		return nil
	}
	isChosen := func(v *version) bool { return p.chosen > 0 && v.number == p.chosen }
	isProduction := func(v *version) bool { return v.isProduction }
	return cmp.Or(last(isChosen), last(isProduction), p.versions[len(p.versions)-1])
}

// reportNumbers reports numbers of versions that are others here.
func (p *prompt) reportNumbers(numbers map[*version]files.Number, last int) {
	if last == 1 {
		return
	}
	var changed []string
	for _, v := range p.versions {
		number, built := numbers[v]
		if number == files.Latest {
			number = files.Number(last)
		}
		if built && v.number != int(number) {
			changed = append(changed, fmt.Sprintf("%s is %d", numberOr(v.number, "one without a number"), number))
		}
	}
	if len(changed) > 0 {
		p.change(node{}, "versions have other numbers in a new preset: "+files.ShortList(changed))
	}
}

func numberOr(number int, otherwise string) string {
	if number == 0 {
		return otherwise
	}
	return strconv.Itoa(number)
}

// keepLabels returns the labels of the versions that are built, and reports the others.
func (p *prompt) keepLabels(numbers map[*version]files.Number) map[string]files.Label {
	labels := make(map[string]files.Label)
	for _, v := range p.versions {
		number, built := numbers[v]
		for _, at := range v.labels {
			label, _ := at.text()
			leave := func(reason string) { p.about(v, LeftOut, at, fmt.Sprintf("label %q %s", label, reason)) }
			_, taken := labels[label]
			switch {
			case label == domain.LatestLabel && number == files.Latest && built: // the designated version is the newest
			case domain.CheckLabel(label) != nil:
				leave("cannot be a label here")
			case !built:
				leave("stands for a version that is not taken")
			case taken:
				leave("stands for another version already")
			case len(labels) == domain.MaxLabels:
				leave(fmt.Sprintf("is one too many: a preset has at most %d", domain.MaxLabels))
			default:
				labels[label] = files.Label{Version: number}
			}
		}
	}
	if len(labels) == 0 {
		return nil
	}
	return labels
}

// messageOf returns the message of a version as a server takes it.
func (p *prompt) messageOf(v *version) *string {
	text, _ := v.message.text()
	if text == "" {
		return nil
	}
	if domain.CheckMessage(text) != nil {
		p.about(v, LeftOut, v.message, fmt.Sprintf("does not fit: a message is one line of at most %d characters", domain.MaxMessage))
		return nil
	}
	return &text
}

// describe sets the name and the description of a preset, and reports a new slug.
func (p *prompt) describe(schemas *schema.Schemas, preset *files.Preset) {
	if preset.Slug != p.name {
		p.change(node{}, "the slug is "+preset.Slug)
	}
	fits := func(member, text string) bool {
		_, err := schemas.UpdatePreset.Check(rawjson.ObjectOf(rawjson.Member{Name: member, Value: rawjson.Quote(text)}))
		if err != nil {
			p.leave(node{}, "the "+member+" does not fit: it "+strings.TrimPrefix(err.Error(), "/"+member+": "))
		}
		return err == nil
	}
	if name := cmp.Or(p.title, p.name); name != preset.Slug && fits("name", name) {
		preset.Name = &name
	}
	if p.description != "" && fits("description", p.description) {
		preset.Description = &p.description
	}
}
