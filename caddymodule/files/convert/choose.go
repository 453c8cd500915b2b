package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// assemble makes presets of prompts, sorted by slug, and fills in the report.
func (c *conversion) assemble(prompts []*prompt) (*files.Set, error) {
	schemas, err := schema.Load()
	if err != nil {
		return nil, err
	}
	workspace := files.Workspace{Slug: c.options.Workspace}
	names := slugs(prompts)
	taken := make(map[string]bool)
	for i, p := range prompts {
		preset, written, ok := c.preset(schemas, p, names[i])
		if folded := strings.ToLower(names[i]); ok && taken[folded] {
			p.refuse(node{}, "another prompt of the input has its slug "+names[i])
			ok = false
		} else {
			taken[folded] = ok
		}
		if ok {
			workspace.Presets = append(workspace.Presets, preset)
			c.report.Written = append(c.report.Written, written)
		}
		for j := range p.entries {
			p.entries[j].Prompt = p.name
		}
		c.report.Entries = append(c.report.Entries, p.entries...)
	}
	slices.SortFunc(workspace.Presets, func(a, b files.Preset) int { return cmp.Compare(a.Slug, b.Slug) })
	slices.SortFunc(c.report.Written, func(a, b Written) int { return cmp.Compare(a.Slug, b.Slug) })
	set := &files.Set{}
	if len(workspace.Presets) > 0 {
		set.Workspaces = append(set.Workspaces, workspace)
	}
	return set, nil
}

// preset makes the preset of a prompt. It is not ok if nothing can be written.
func (c *conversion) preset(schemas *schema.Schemas, p *prompt, slug string) (preset files.Preset, written Written, ok bool) {
	if len(p.versions) == 0 {
		if !slices.ContainsFunc(p.entries, func(e Entry) bool { return e.Kind == NotWritten }) {
			p.refuse(node{}, "has no version")
		}
		return preset, written, false
	}
	if p.hasRepeated() {
		return preset, written, false
	}
	chosen := p.choose()
	series := p.series(chosen, c.options.AllVersions)
	p.reportOthers(chosen, c.options.AllVersions)
	numbers := make(map[*version]files.Number)
	for _, v := range series {
		built, ok := v.build(schemas)
		p.take(v)
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
	if chosen.message != "" {
		p.entries = append(p.entries, Entry{
			Kind: LeftOut, Version: chosen.number, File: chosen.messagePlace.file, Path: chosen.messagePlace.path,
			Message: "has no place in a file: give it to caddy presets apply as --message",
		})
	}
	p.reportNumbers(numbers, len(preset.Earlier)+1)
	preset.Workspace, preset.Slug, preset.Status = c.options.Workspace, slug, domain.PresetActive
	preset.File = preset.Workspace + "/" + slug + ".yaml"
	if p.disabled {
		preset.Status = domain.PresetDisabled
	}
	preset.Labels = p.labels(numbers)
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

// choose returns the version that requests get. It reports if the input does not have it.
func (p *prompt) choose() *version {
	slices.SortStableFunc(p.versions, func(a, b *version) int { return cmp.Compare(a.number, b.number) })
	if p.chosen > 0 {
		for _, v := range p.versions {
			if v.number == p.chosen {
				return v
			}
		}
	}
	taken := p.versions[len(p.versions)-1]
	for _, v := range slices.Backward(p.versions) {
		if v.isProduction {
			taken = v
			break
		}
	}
	if p.chosen > 0 {
		p.entries = append(p.entries, Entry{Kind: Changed, Version: taken.number, Message: fmt.Sprintf("is taken, since the input does not have version %d, which requests get", p.chosen)})
	}
	return taken
}

// series returns the versions to build. The chosen one is the last.
func (p *prompt) series(chosen *version, all bool) (series []*version) {
	for _, v := range p.versions {
		if all && v != chosen {
			series = append(series, v)
		}
	}
	return append(series, chosen)
}

// take moves the entries of a version to its prompt.
func (p *prompt) take(v *version) {
	for _, e := range v.entries {
		e.Version = v.number
		p.entries = append(p.entries, e)
	}
	v.entries = nil
}

// reportOthers reports the versions that are not built.
func (p *prompt) reportOthers(chosen *version, all bool) {
	if all || len(p.versions) < 2 {
		return
	}
	var others []string
	for _, v := range p.versions {
		if v != chosen {
			others = append(others, numberOr(v.number, "without a number"))
		}
	}
	p.entries = append(p.entries, Entry{Kind: LeftOut, Message: "other versions are not taken without --all-versions: " + files.ShortList(others)})
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
		p.entries = append(p.entries, Entry{Kind: Changed, Message: "versions have other numbers in a new preset: " + files.ShortList(changed)})
	}
}

func numberOr(number int, otherwise string) string {
	if number == 0 {
		return otherwise
	}
	return strconv.Itoa(number)
}

// labels returns the labels of the versions that are built, and reports the others.
func (p *prompt) labels(numbers map[*version]files.Number) map[string]files.Label {
	labels := make(map[string]files.Label)
	leave := func(v *version, label, reason string) {
		p.entries = append(p.entries, Entry{
			Kind: LeftOut, Version: v.number, File: v.labelPlace.file, Path: v.labelPlace.path, Message: fmt.Sprintf("label %q %s", label, reason),
		})
	}
	for _, v := range p.versions {
		number, built := numbers[v]
		for _, label := range v.labels {
			_, taken := labels[label]
			switch {
			case label == domain.LatestLabel && number == files.Latest && built: // the designated version is the newest
			case domain.CheckLabel(label) != nil:
				leave(v, label, "cannot be a label here")
			case !built:
				leave(v, label, "stands for a version that is not taken")
			case taken:
				leave(v, label, "stands for another version already")
			case len(labels) == domain.MaxLabels:
				leave(v, label, fmt.Sprintf("is one too many: a preset has at most %d", domain.MaxLabels))
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
	if v.message == "" {
		return nil
	}
	text := strings.Join(strings.FieldsFunc(v.message, unicode.IsControl), " ")
	if runes := []rune(text); len(runes) > domain.MaxMessage {
		text = string(runes[:domain.MaxMessage])
	}
	entry := Entry{Kind: Changed, Version: v.number, File: v.messagePlace.file, Path: v.messagePlace.path}
	if domain.CheckMessage(text) != nil {
		entry.Kind, entry.Message = LeftOut, "cannot be the message of a version"
		p.entries = append(p.entries, entry)
		return nil
	}
	if text != v.message {
		entry.Message = fmt.Sprintf("is one line of at most %d characters here", domain.MaxMessage)
		p.entries = append(p.entries, entry)
	}
	return &text
}

// describe sets the name and the description of a preset, and reports a new slug.
func (p *prompt) describe(schemas *schema.Schemas, preset *files.Preset) {
	if preset.Slug != p.name {
		p.entries = append(p.entries, Entry{Kind: Changed, Message: "the slug is " + preset.Slug})
	}
	fits := func(member, text string) bool {
		_, err := schemas.UpdatePreset.Check(rawjson.ObjectOf(rawjson.Member{Name: member, Value: rawjson.Quote(text)}))
		if err != nil {
			p.entries = append(p.entries, Entry{Kind: LeftOut, Message: "the " + member + " does not fit: it " + strings.TrimPrefix(err.Error(), "/"+member+": ")})
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
