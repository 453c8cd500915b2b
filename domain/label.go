package domain

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Target is the meaning of a label: one version of its preset, or a split of requests
// between several. A label is a name that can be moved, such as staging.
type Target struct {
	// Version is 0 where there is a split.
	Version int     `json:"version,omitzero"`
	Split   []Share `json:"split,omitempty"`
	// Protected makes changing and removing the label take the right ProtectedLabels.
	Protected bool `json:"protected,omitzero"`
}

// Share is a version's part of a split.
type Share struct {
	Version int `json:"version"`
	// Weight is the share of sessions relative to the other weights.
	Weight int `json:"weight"`
}

// formatSplit returns the versions of a split with their weights, such as 3:90,4:10.
func formatSplit(split []Share) string {
	var text []byte
	for i, share := range split {
		if i > 0 {
			text = append(text, ',')
		}
		text = fmt.Appendf(text, "%d:%d", share.Version, share.Weight)
	}
	return string(text)
}

// LabelChange is one change of a label. It is never changed itself. Its JSON is stored
// and shown to clients.
type LabelChange struct {
	Number int       `json:"number"` // from 1, without a gap, going on when a label is set again
	Time   time.Time `json:"time"`
	KeyID  string    `json:"key_id"`
	UserID string    `json:"user_id"`
	// From and To are nil where the label did not exist.
	From *Target `json:"from"`
	To   *Target `json:"to"`
}

const (
	// MaxLabels bounds the labels of one preset.
	MaxLabels = 64
	// MaxShares bounds the versions of a split.
	MaxShares = 16
	// MaxWeight bounds the weight of each.
	MaxWeight = 10_000
	// LatestLabel is reserved: it would not say which version is the latest.
	LatestLabel = "latest"
)

// labelPattern is the pattern of a label, which follows a slug and an @ in a reference.
var labelPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._~-]{0,63}$`)

// CheckLabel returns an Invalid error if label, already percent-decoded, cannot be used.
// Numbers are versions, so they are no labels.
func CheckLabel(label string) error {
	if !labelPattern.MatchString(label) {
		return InvalidAt("label", "must be 1 to 64 characters of A-Z a-z 0-9 . _ ~ - and begin with a letter or digit")
	}
	if strings.Trim(label, "0123456789") == "" || strings.EqualFold(label, LatestLabel) {
		return InvalidAt("label", "is reserved: "+LatestLabel+" and numbers cannot be labels")
	}
	return nil
}
