package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/caddymodule/files"
)

// LabelChange is the change of a label. From is nil for a new label, and To for one that is
// removed.
type LabelChange struct {
	Label string       `json:"label"`
	From  *files.Label `json:"from"`
	To    *files.Label `json:"to"`

	tag  string // of the label on the server, empty for a new one
	done bool   // Apply has made the change
}

// isPossible reports whether the change can be made before a version of a number is: it removes the
// label, or all versions of To exist.
func (l *LabelChange) isPossible(number int) bool {
	return !l.done && (l.To == nil || !slices.ContainsFunc(sharesOf(*l.To), func(share files.Share) bool {
		return share.Version == files.Latest || int(share.Version) >= number
	}))
}

// withNumber returns a label with another number in the place of one.
func withNumber(l files.Label, old, number files.Number) files.Label {
	l.Split = slices.Clone(l.Split)
	for i := range l.Split {
		if l.Split[i].Version == old {
			l.Split[i].Version = number
		}
	}
	if l.Split == nil && l.Version == old {
		l.Version = number
	}
	return l
}

func sameTarget(a, b files.Label) bool {
	return a.Version == b.Version && slices.Equal(a.Split, b.Split)
}

// sharesOf returns the versions of a label with their weights. A version without a split has weight 1.
func sharesOf(l files.Label) []files.Share {
	if l.Split == nil {
		return []files.Share{{Version: l.Version, Weight: 1}}
	}
	return l.Split
}

func hasVersion(shares []files.Share, version files.Number) bool {
	return slices.ContainsFunc(shares, func(share files.Share) bool { return share.Version == version })
}

// compareLabels finds the changes of labels: removals first, then by name. next is the number of
// the file's version, Latest if it is not known. Versions above made do not exist yet: next is
// shown as latest then. exists reports whether there are other versions than those that the preset
// is known to have.
func (c *Change) compareLabels(p client.Preset, next, made int, exists func(number int) (bool, error)) error {
	known := map[int]bool{p.DesignatedVersion: true, next: true}
	for _, name := range slices.Sorted(maps.Keys(p.Labels)) {
		from := files.LabelOf(p.Labels[name])
		for _, share := range sharesOf(from) {
			known[int(share.Version)] = true
		}
		if _, ok := c.file.Labels[name]; !ok {
			c.Labels = append(c.Labels, LabelChange{Label: name, From: &from})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.file.Labels)) {
		to := withNumber(c.file.Labels[name], files.Latest, files.Number(next))
		shares := sharesOf(to)
		for i, share := range shares {
			number := int(share.Version)
			if hasVersion(shares[:i], share.Version) {
				return problem(fmt.Sprintf("label %s: the split has version %d twice, since latest is %d", name, number, next))
			}
			if known[number] {
				continue
			}
			ok, err := exists(number)
			switch {
			case err != nil:
				return err
			case !ok && c.Action == Create:
				return problem(fmt.Sprintf("label %s: a new preset has no version %d: say latest", name, number))
			case !ok:
				return problem(fmt.Sprintf("label %s: the preset has no version %d", name, number))
			}
		}
		change := LabelChange{Label: name}
		if stored, ok := p.Labels[name]; ok {
			from := files.LabelOf(stored)
			if sameTarget(from, to) {
				continue
			}
			change.From = &from
		}
		if next > made {
			to = withNumber(to, files.Number(next), files.Latest)
		}
		change.To = &to
		c.Labels = append(c.Labels, change)
	}
	return nil
}
