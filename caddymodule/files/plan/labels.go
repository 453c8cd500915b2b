package plan

import (
	"cmp"
	"context"
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
type Target struct {
	Version files.Number
	Split   []files.Share
}

// targetOf returns the target of a label on a server.
func targetOf(target domain.Target) Target {
	t := Target{Version: files.Number(target.Version)}
	for _, share := range target.Split {
		t.Split = append(t.Split, files.Share{Version: files.Number(share.Version), Weight: share.Weight})
	}
	return t
}

// MarshalJSON returns an object with version or split.
func (t Target) MarshalJSON() ([]byte, error) {
	number := func(n files.Number) any {
		if n == files.Latest {
			return n.String()
		}
		return int(n)
	}
	if t.Split == nil {
		return json.Marshal(map[string]any{"version": number(t.Version)})
	}
	split := make([]map[string]any, len(t.Split))
	for i, share := range t.Split {
		split[i] = map[string]any{"version": number(share.Version), "weight": share.Weight}
	}
	return json.Marshal(map[string]any{"split": split})
}

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

// with returns t with a number in the place of latest.
func (t Target) with(latest int) Target {
	resolve := func(n files.Number) files.Number {
		if n == files.Latest {
			return files.Number(latest)
		}
		return n
	}
	if t.Split == nil {
		return Target{Version: resolve(t.Version)}
	}
	resolved := Target{Split: make([]files.Share, len(t.Split))}
	for i, share := range t.Split {
		resolved.Split[i] = files.Share{Version: resolve(share.Version), Weight: share.Weight}
	}
	return resolved
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
func (t Target) sharesBelow(number int) (old []files.Share) {
	for _, share := range t.shares() {
		if share.Version != files.Latest && int(share.Version) < number {
			old = append(old, share)
		}
	}
	return old
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
	var others []files.Share
	for _, share := range split {
		if !hasVersion(shares, share.Version) {
			others = append(others, share)
		}
	}
	slices.SortStableFunc(others, func(a, b files.Share) int { return cmp.Compare(a.Weight, b.Weight) })
	excess := others[:max(0, len(split)-domain.MaxShares)]
	return Target{Split: slices.DeleteFunc(split, func(share files.Share) bool { return hasVersion(excess, share.Version) })}
}

func hasVersion(shares []files.Share, version files.Number) bool {
	return slices.ContainsFunc(shares, func(share files.Share) bool { return share.Version == version })
}

// numbers calls yield with all versions of t.
func (t Target) numbers(yield func(files.Number) bool) {
	for _, share := range t.shares() {
		if !yield(share.Version) {
			return
		}
	}
}

// labels are the labels that a file wants, with numbers. next is the number of the file's
// version.
type labels struct {
	targets map[string]Target
	next    int
}

// missingVersion is a version of a label that is not known to exist.
type missingVersion struct {
	label  string
	number int
}

func (m missingVersion) problem() string {
	return fmt.Sprintf("label %s: the preset has no version %d", m.label, m.number)
}

// wantedLabels returns the labels of a file, and those of their versions that are not known.
func wantedLabels(file *files.Preset, next int, known map[int]bool) (labels, []missingVersion) {
	wanted := labels{make(map[string]Target, len(file.Labels)), next}
	var missing []missingVersion
	for _, name := range slices.Sorted(maps.Keys(file.Labels)) {
		target := Target(file.Labels[name]).with(next)
		wanted.targets[name] = target
		for n := range target.numbers {
			if number := int(n); !known[number] {
				missing = append(missing, missingVersion{name, number})
			}
		}
	}
	return wanted, missing
}

// problem returns what is wrong with a label whatever the server has, empty for nothing.
func (l labels) problem() string {
	for _, name := range slices.Sorted(maps.Keys(l.targets)) {
		seen := make(map[files.Number]bool)
		for n := range l.targets[name].numbers {
			if seen[n] {
				return fmt.Sprintf("label %s: the split has version %d twice, since latest is %d", name, n, l.next)
			}
			seen[n] = true
		}
	}
	return ""
}

// changes returns the changes that lead from the labels of a server to l: removals first,
// then by name. Versions above current are not made yet: they are shown as latest if they
// are the file's.
func (l labels) changes(from map[string]Target, current int) []LabelChange {
	var removed, set []LabelChange
	for _, name := range slices.Sorted(maps.Keys(from)) {
		if _, ok := l.targets[name]; !ok {
			removed = append(removed, LabelChange{Label: name, From: new(from[name])})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.targets)) {
		to := l.targets[name]
		old, exists := from[name]
		if exists && old.equals(to) {
			continue
		}
		change := LabelChange{Label: name, To: new(to.withLatest(l.next, current))}
		if exists {
			change.From = &old
		}
		set = append(set, change)
	}
	return append(removed, set...)
}

// withLatest returns t with latest in the place of next, if next is above current.
func (t Target) withLatest(next, current int) Target {
	if next <= current {
		return t
	}
	show := func(n files.Number) files.Number {
		if int(n) == next {
			return files.Latest
		}
		return n
	}
	shown := Target{Version: show(t.Version)}
	if t.Split != nil {
		shown = Target{}
		for _, share := range t.Split {
			shown.Split = append(shown.Split, files.Share{Version: show(share.Version), Weight: share.Weight})
		}
	}
	return shown
}

// targetsOf returns the labels of a preset, and the versions that it has for sure.
func targetsOf(p client.Preset) (labels map[string]Target, known map[int]bool) {
	labels, known = make(map[string]Target, len(p.Labels)), map[int]bool{p.DesignatedVersion: true}
	for name, target := range p.Labels {
		t := targetOf(target)
		labels[name] = t
		for n := range t.numbers {
			known[int(n)] = true
		}
	}
	return labels, known
}

// compareArchivedLabels finds the changes of labels of an archived preset, as far as its
// history tells. The number of the file's version is not known. The history does not tell
// which old versions were removed. Such a label is found after the preset is restored.
func (r *reader) compareArchivedLabels(ctx context.Context, c *Change, archived client.Preset) (problem string, err error) {
	from, known := targetsOf(archived)
	known[int(files.Latest)] = true
	wanted, missing := wantedLabels(c.file, int(files.Latest), known)
	if len(missing) > 0 {
		newest, err := r.newestMade(ctx, c.workspaceID, c.Slug)
		if err != nil {
			return "", err
		}
		for _, m := range missing {
			if newest > 0 && m.number > newest+1 { // the file's version may be the next one
				return m.problem(), nil
			}
		}
	}
	c.Labels = append(c.Labels, wanted.changes(from, 0)...)
	return "", nil
}

// compareLabels finds the changes of labels. next is the number of the file's version. It
// returns why the labels cannot be set, empty if they can.
func (r *reader) compareLabels(ctx context.Context, c *Change, current preset, next int) (problem string, err error) {
	from, known := targetsOf(current.Preset)
	known[next] = true
	if c.version != nil {
		for i := range c.earlier {
			known[next-1-i] = true
		}
	}
	wanted, missing := wantedLabels(c.file, next, known)
	if problem := wanted.problem(); problem != "" {
		return problem, nil
	}
	for _, m := range missing {
		switch exists, err := r.hasVersion(ctx, c.workspaceID, c.Slug, m.number); {
		case err != nil:
			return "", err
		case !exists:
			return m.problem(), nil
		}
	}
	made := next
	if c.version != nil {
		made = next - 1
	}
	c.Labels = append(c.Labels, wanted.changes(from, made)...)
	for i := range c.Labels {
		if c.Labels[i].From == nil {
			continue
		}
		now, err := r.label(ctx, c.workspaceID, c.Slug, c.Labels[i].Label)
		if err != nil {
			return "", err
		}
		c.Labels[i].tag, c.Labels[i].moved = now.tag, !targetOf(now.Target).equals(*c.Labels[i].From)
	}
	return "", nil
}
