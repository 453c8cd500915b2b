package usage

import "slices"

// HandleContent returns the content of a handle.
func HandleContent(a Answered) []byte { return appendAnswered(nil, a) }

// Signed returns the text of a handle with any content.
func (h *Handles) Signed(content []byte) string {
	w := h.writers.Get().(*handleWriter)
	defer h.writers.Put(w)
	return handleEncoding.EncodeToString(w.sum(slices.Clip(content), content))
}
