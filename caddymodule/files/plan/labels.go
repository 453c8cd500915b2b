package plan

import (
	"cmp"
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
	// set is what Apply has set the label to before all versions of To were made. It is nil
	// for nothing. done is set if that is all.
	set  *Target
	done bool
}

// now returns what the label stands for, nil for nothing.
func (l *LabelChange) now() *Target {
	if l.set != nil {
		return l.set
	}
	return l.From
}

// before returns the target to set before a version of a number is made. It is not needed if
// the label names all older versions of To already, unless To has no others.
//
// A label that needs newer versions, too, serves what it did until they are made, and only
// names the older ones. A new label, which nobody uses yet, serves the older ones. If the file
// gives them no weight, it serves the designated version.
func (l *LabelChange) before(number, designated int) (part *Target, needed bool) {
	if l.done || l.To == nil {
		return nil, !l.done
	}
	old := l.To.sharesBelow(number)
	if len(old) == len(l.To.shares()) {
		return l.To, true
	}
	now := l.now()
	switch {
	case len(old) == 0:
		return nil, false
	case now != nil:
		named := now.withShares(old)
		return &named, !named.equals(*now)
	case slices.ContainsFunc(old, func(share files.Share) bool { return share.Weight > 0 }):
		return &Target{Split: old}, true
	default:
		return new(Target{Version: files.Number(designated)}.withShares(old)), true
	}
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

// sharesBelow returns the shares of t that are versions below a number.
func (t Target) sharesBelow(number int) []files.Share {
	return slices.DeleteFunc(slices.Clone(t.shares()), func(share files.Share) bool {
		return share.Version == files.Latest || int(share.Version) >= number
	})
}

// withShares returns t with the versions of shares that it lacks, at weight 0. If those are too
// many for a split, t loses the lightest versions that shares does not have. Requests then go
// only to versions that t served before, and few sessions move. There must be fewer shares
// than a split can have.
func (t Target) withShares(shares []files.Share) Target {
	split := slices.Clone(t.shares())
	for _, share := range shares {
		if !hasVersion(split, share.Version) {
			split = append(split, files.Share{Version: share.Version})
		}
	}
	if len(split) == len(t.shares()) {
		return t
	}
	others := slices.DeleteFunc(slices.Clone(split), func(share files.Share) bool { return hasVersion(shares, share.Version) })
	slices.SortStableFunc(others, func(a, b files.Share) int { return cmp.Compare(a.Weight, b.Weight) })
	excess := others[:max(0, len(split)-domain.MaxShares)]
	return Target{Split: slices.DeleteFunc(split, func(share files.Share) bool { return hasVersion(excess, share.Version) })}
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
