package files

import (
	"fmt"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/caddy-presets/caddy-presets/domain"
)

// labels reads the labels of a preset.
func (d *document) labels(n *yaml.Node, path []string) map[string]Label {
	all := make(map[string]Label)
	for _, e := range d.entries(n, path) {
		at := append(slices.Clone(path), e.name)
		if err := domain.CheckLabel(e.name); err != nil {
			refused, _ := err.(*domain.Error) //nolint:errorlint // CheckLabel returns this type unwrapped
			d.mistake(e.key, at, "the name of a label "+refused.Issues[0].Message)
			continue
		}
		all[e.name] = d.label(e.value, at)
	}
	if len(all) > domain.MaxLabels {
		d.mistake(n, path, fmt.Sprintf("must have at most %d labels", domain.MaxLabels))
	}
	return all
}

const labelForms = "must be the number of a version, latest, or {split: [{version: …, weight: …}]}"

func (d *document) label(n *yaml.Node, path []string) (label Label) {
	if value := follow(n); value.Kind == yaml.MappingNode {
		split := false
		for _, e := range d.entries(value, path) {
			at := append(slices.Clone(path), e.name)
			if e.name != "split" {
				d.mistake(e.key, at, "is unknown: "+labelForms)
				continue
			}
			split = true
			label.Split = d.split(e.value, at)
		}
		if !split {
			d.mistake(n, path, labelForms)
		}
		return label
	}
	number, ok := d.number(n)
	if !ok {
		d.mistake(n, path, labelForms)
	}
	return Label{Version: number}
}

// number reads the number of a version, or latest.
func (d *document) number(n *yaml.Node) (Number, bool) {
	s := scalarOf(n)
	if s.kind == '"' && s.text == domain.LatestLabel {
		return Latest, true
	}
	number, ok := s.integer()
	return Number(number), ok && number > 0
}

// scalarOf returns the meaning of a value, which has no kind unless it is a scalar.
func scalarOf(n *yaml.Node) scalar {
	if n = follow(n); n.Kind == yaml.ScalarNode {
		if s, problem := readScalar(n); problem == "" {
			return s
		}
	}
	return scalar{}
}

// split reads the versions of a split, by the rules of domain.Target.
func (d *document) split(n *yaml.Node, path []string) (split []Share) {
	list := follow(n)
	if list.Kind != yaml.SequenceNode || len(list.Content) == 0 || len(list.Content) > domain.MaxShares {
		d.mistake(n, path, fmt.Sprintf("must be a list of 1 to %d versions with weights", domain.MaxShares))
		return []Share{}
	}
	total := 0
	for i, item := range list.Content {
		at := append(slices.Clone(path), strconv.Itoa(i))
		share, ok := d.share(item, at)
		if ok && slices.ContainsFunc(split, func(other Share) bool { return other.Version == share.Version }) {
			d.mistake(item, append(at, "version"), "is in the split already")
		}
		split = append(split, share)
		total += share.Weight
	}
	if total == 0 {
		d.mistake(n, path, "must have a weight above 0")
	}
	return split
}

func (d *document) share(n *yaml.Node, path []string) (share Share, ok bool) {
	var version, weight bool
	for _, e := range d.entries(n, path) {
		at := append(slices.Clone(path), e.name)
		switch e.name {
		case "version":
			version = true
			if share.Version, ok = d.number(e.value); !ok {
				d.mistake(e.value, at, "must be the number of a version, or latest")
			}
		case "weight":
			weight = true
			n, ok := scalarOf(e.value).integer()
			if !ok || n < 0 || n > domain.MaxWeight {
				d.mistake(e.value, at, fmt.Sprintf("must be an integer between 0 and %d", domain.MaxWeight))
				n = 1 // the split has a weight, which is a mistake already
			}
			share.Weight = n
		default:
			d.mistake(e.key, at, "is unknown: a part of a split has version and weight")
		}
	}
	if follow(n).Kind == yaml.MappingNode {
		if !version {
			d.mistake(n, append(slices.Clone(path), "version"), "required")
		}
		if !weight {
			d.mistake(n, append(slices.Clone(path), "weight"), "required")
			share.Weight = 1
		}
	} else {
		share.Weight = 1
	}
	return share, ok
}
