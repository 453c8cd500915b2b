package usage

import (
	"math"
	"slices"
)

// HandleContent returns the content of a handle.
func HandleContent(a Answered) []byte { return appendAnswered(nil, a) }

// Signed returns the text of a handle with any content.
func (h *Handles) Signed(content []byte) string {
	w := h.writers.Get().(*handleWriter)
	defer h.writers.Put(w)
	return handleEncoding.EncodeToString(w.sum(slices.Clip(content), content))
}

// Encode returns the content of a row. The order of the series does not matter. Series of
// one key are summed.
func Encode(slug string, list []Series) ([]byte, error) {
	changes := make(map[string]*Totals, len(list))
	for i := range list {
		key := string(appendKey(nil, &list[i].Key))
		if changes[key] == nil {
			changes[key] = new(Totals)
		}
		changes[key].merge(&list[i].Totals, math.MaxInt)
	}
	content, _, err := mergeRow(nil, slug, changes)
	return content, err
}
