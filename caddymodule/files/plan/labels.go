package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/domain"
)

// LabelChange is the change of a label. From is nil for a new label, and To for one that is
// removed.
type LabelChange struct {
	Label string  `json:"label"`
	From  *Target `json:"from"`
	To    *Target `json:"to"`

	tag string // of the label on the server, empty for a new one
	// moved is set if the label was changed or removed after From was read.
	moved bool
	done  bool // Apply has made the change
}

// isPossible reports whether the change can be made before a version of a number is: it removes the
// label, or all versions of To exist.
func (l *LabelChange) isPossible(number int) bool {
	return !l.done && (l.To == nil || !slices.ContainsFunc(l.To.shares(), func(share files.Share) bool {
		return share.Version == files.Latest || int(share.Version) >= number
	}))
}

// Target is what a label stands for: one version, or a split. Its JSON is that of the API,
// but a version that is yet to be made is "latest".
type Target files.Label

// targetOf returns the target of a label on a server.
func targetOf(target domain.Target) Target {
	t := Target{Version: files.Number(target.Version)}
	for _, share := range target.Split {
		t.Split = append(t.Split, files.Share{Version: files.Number(share.Version), Weight: share.Weight})
	}
	return t
}

// MarshalJSON returns an object with version or split.
func (t Target) MarshalJSON() ([]byte, error) { return json.Marshal(files.Label(t)) }

// String returns the target for people, such as 3, latest or 2:90,latest:10.
func (t Target) String() string {
	if t.Split == nil {
		return t.Version.String()
	}
	shares := make([]string, len(t.Split))
	for i, share := range t.Split {
		shares[i] = share.Version.String() + ":" + strconv.Itoa(share.Weight)
	}
	return strings.Join(shares, ",")
}

// with returns t with another number in the place of one.
func (t Target) with(old, number files.Number) Target {
	t.Split = slices.Clone(t.Split)
	for i := range t.Split {
		if t.Split[i].Version == old {
			t.Split[i].Version = number
		}
	}
	if t.Split == nil && t.Version == old {
		t.Version = number
	}
	return t
}

func (t Target) equals(other Target) bool {
	return t.Version == other.Version && slices.Equal(t.Split, other.Split)
}

// shares returns the versions of t with their weights. A version without a split has weight 1.
func (t Target) shares() []files.Share {
	if t.Split == nil {
		return []files.Share{{Version: t.Version, Weight: 1}}
	}
	return t.Split
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
		from := targetOf(p.Labels[name])
		for _, share := range from.shares() {
			known[int(share.Version)] = true
		}
		if _, ok := c.file.Labels[name]; !ok {
			c.Labels = append(c.Labels, LabelChange{Label: name, From: &from})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.file.Labels)) {
		to := Target(c.file.Labels[name]).with(files.Latest, files.Number(next))
		shares := to.shares()
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
			from := targetOf(stored)
			if from.equals(to) {
				continue
			}
			change.From = &from
		}
		if next > made {
			to = to.with(files.Number(next), files.Latest)
		}
		change.To = &to
		c.Labels = append(c.Labels, change)
	}
	return nil
}
