package usage

import (
	"cmp"
	"math"
	"strconv"
	"time"
)

// Report is the answer to a Query.
type Report struct {
	query Query
	// series are ordered by their keys. Null keys come after others, and other comes last.
	series []*reportSeries
}

// reportSeries is the usage of one key.
type reportSeries struct {
	key   reportKey
	total figures
	// points has one for every step that has begun, also for those without requests. So
	// the points of all series are at the same times.
	points []figures
}

// reportKey is the key of a series. It has what Query.By asks for, and empty fields.
type reportKey struct {
	preset  string
	version int
	text    string // the label, model, key or status
	other   bool
}

// compare orders keys as Report does.
func (k reportKey) compare(o reportKey) int {
	return cmp.Or(
		compareBool(k.other, o.other),
		compareBool(k.preset == "", o.preset == ""), cmp.Compare(k.preset, o.preset),
		compareBool(k.version == 0, o.version == 0), cmp.Compare(k.version, o.version),
		compareBool(k.text == "", o.text == ""), cmp.Compare(k.text, o.text),
	)
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// figures are the sums of a period, and the percentiles of their sketches.
type figures struct {
	Totals
	percentiles [measures]percentiles
}

// measureNames are the names of the measures that have percentiles.
var measureNames = [measures]string{"duration_ms", "first_content_ms"}

// hasCost reports whether any request had a cost.
func (f *figures) hasCost() bool { return f.counts[costed] > 0 }

// costEstimated reports whether a part of the cost is estimated.
func (f *figures) costEstimated() bool { return f.counts[estimated] > 0 }

// costUnknown is how many requests may have cost something that is not known.
func (f *figures) costUnknown() int64 { return f.counts[uncosted] }

// appendMean appends the mean score as decimal text. It is never beyond the scores, even if a
// replaced score was summed in another series.
func (o outcome) appendMean(b []byte) []byte {
	mean := math.Round(float64(o.sum) / float64(o.count))
	return strconv.AppendFloat(b, min(max(mean, -1e6), 1e6)/1e6+0, 'f', -1, 64) // never -0
}

// time returns the start of a point.
func (r Report) time(point int) time.Time {
	return r.query.From.Add(time.Duration(point) * r.query.Step.length())
}

// keyNames returns the members of keys. Versions of different presets have nothing in
// common, so a workspace's report by version names the preset, too.
func (r Report) keyNames() []string {
	if r.query.By == ByVersion && r.query.Scope == OfWorkspace {
		return []string{string(ByPreset), string(ByVersion)}
	}
	return []string{string(r.query.By)}
}

// countNames are the names of the counts that reports show, in their order.
var countNames = [shown]string{ //nolint:gosec // names of counts, no secrets
	requests: "requests", errored: "errors", aborted: "aborted", streamed: "streamed", unknown: "unknown", refused: "refused",
	inputTokens: "input_tokens", outputTokens: "output_tokens",
	cacheReadTokens: "cache_read_input_tokens", cacheWriteTokens: "cache_write_input_tokens",
	reasoningTokens: "reasoning_output_tokens",
}
