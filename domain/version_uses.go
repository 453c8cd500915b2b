package domain

import (
	"bytes"
	"slices"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
)

// versionUses tells how requests get the versions of a preset: by its name alone, or by a
// label. It also tells when they last did.
type versionUses struct {
	designated int
	labels     map[int][]string // in byte order, by version
	served     Served
}

// uses returns the uses of p's versions.
func (p shown) uses() (versionUses, error) {
	uses := versionUses{designated: p.state.DesignatedVersion, served: p.served}
	if bytes.HasSuffix(p.json, []byte(`"labels":{}}`)) { // most presets have none
		return uses, nil
	}
	var preset struct {
		Labels map[string]Target `json:"labels"`
	}
	if err := jsonv2.Unmarshal(p.json, &preset); err != nil {
		return uses, err
	}
	uses.labels = make(map[int][]string)
	for label, to := range preset.Labels {
		if to.Split == nil {
			uses.labels[to.Version] = append(uses.labels[to.Version], label)
		}
		for _, share := range to.Split {
			uses.labels[share.Version] = append(uses.labels[share.Version], label)
		}
	}
	for _, labels := range uses.labels {
		slices.Sort(labels)
	}
	return uses, nil
}

// add returns the JSON of version n with its uses as the last members. A version that has
// a part of a label's split has that label.
func (u versionUses) add(version []byte, n int) []byte {
	uses := append(make([]byte, 0, 96), `,"designated":`...)
	uses = strconv.AppendBool(uses, n == u.designated)
	uses = append(uses, `,"labels":[`...)
	for i, label := range u.labels[n] {
		if i > 0 {
			uses = append(uses, ',')
		}
		uses = strconv.AppendQuote(uses, label) // labels need no escapes
	}
	uses = u.served.appendTo(append(uses, ']'), n)
	return slices.Concat(version[:len(version)-1], uses, []byte{'}'})
}
