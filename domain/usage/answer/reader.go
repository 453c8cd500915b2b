package answer

import (
	"cmp"
	"mime"
	"strings"
	"sync"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// Reader reads one answer. It is not safe for concurrent use.
type Reader struct {
	dialect  domain.Dialect
	streamed bool
	any      bool      // there was a byte
	last     time.Time // of the last Write
	reason   Reason    // why nothing more is read

	decoder *decoder // nil for identity
	*parser          // nil after Close

	counts  bool // content
	content int

	tee    func([]byte) // gets what is read, nil for none
	closed bool
	seen   Seen
}

// parser is the state of reading a text. It is large, and used again.
type parser struct {
	text    rawjson.Shortener // of the event, or of the body
	lines   lines
	summary summary
}

// maxPooled bounds the texts that are used again.
const maxPooled = 16 << 10

var parsers = sync.Pool{New: func() any { return new(parser) }}

// New returns a reader of an answer in dialect d. contentType and contentEncoding are the
// answer's headers. It reads identity, gzip, br and zstd. It never fails: an answer
// that it cannot read has unknown tokens. It does not know the answer's status: an answer
// with an error status may have no usage or be HTML. The caller must call Close.
func New(d domain.Dialect, contentType, contentEncoding string) *Reader {
	r := &Reader{dialect: d, parser: parsers.Get().(*parser)}
	switch mediaType(contentType) {
	case "text/event-stream":
		r.streamed = true
	case "application/json":
	default:
		r.reason = MediaType
		return r
	}
	if encoding, ok := decodings[strings.ToLower(strings.TrimSpace(contentEncoding))]; !ok {
		r.reason = Encoding
	} else if encoding != nil {
		r.decoder = newDecoder(encoding, func(p []byte) { r.read(p, r.last) })
	}
	return r
}

// mediaType returns the media type without parameters. Types that end in +json are JSON.
func mediaType(contentType string) string {
	switch contentType { // as gateways write it
	case "text/event-stream", "application/json":
		return contentType
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil && media == "" {
		return ""
	}
	if strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json") {
		return "application/json"
	}
	return media
}

// Streamed reports whether the answer is text/event-stream.
func (r *Reader) Streamed() bool { return r.streamed }

// Tee gives sink the bytes of the answer that r reads from now on, without their encoding. sink must not keep
// them.
func (r *Reader) Tee(sink func([]byte)) { r.tee = sink }

// NeedsTime reports whether the next Write needs a time: it may have the first content.
func (r *Reader) NeedsTime() bool { return r.streamed && !r.closed && r.summary.firstContent.IsZero() }

// CountContent has Seen.Content and Seen.Told counted, which takes time for each event. Call it before Write.
func (r *Reader) CountContent() { r.counts = true }

// Write reads the answer's next bytes, which passed at now. It never fails, never keeps p,
// and returns when it has read p. Call it after the bytes went to the client. See NeedsTime.
func (r *Reader) Write(p []byte, now time.Time) {
	switch {
	case r.closed, len(p) == 0:
		return
	case r.reason != "":
		r.content += len(p)
		return
	}
	r.last, r.any = now, true
	if r.decoder == nil {
		r.read(p, now)
		return
	}
	r.decoder.write(p)
	r.reason = cmp.Or(r.reason, r.decoder.reason)
}

// read reads decoded bytes.
func (r *Reader) read(p []byte, now time.Time) {
	if r.tee != nil {
		r.tee(p)
	}
	if r.streamed {
		r.readLines(p, now)
		return
	}
	r.content += len(p)
	if r.text.Add(p); len(r.text.Text()) > rawjson.MaxShortText {
		r.reason = TooLarge
		r.countBody()
	}
}

// countBody counts the content of a body, or of as much of it as was kept.
func (r *Reader) countBody() {
	if r.counts {
		r.content = min(r.content, contentSize(r.text.Text(), bodyNames, maxContentDepth))
	}
}

// Close ends the answer and releases everything. complete tells whether the answer ended as
// it should. So does the last event of a stream. Usage that was read before a cut is known. Write does nothing after Close, and
// Close returns the same again.
func (r *Reader) Close(complete bool) Seen {
	if r.closed {
		return r.seen
	}
	truncated := false
	if r.decoder != nil {
		truncated = r.decoder.close() && r.any
		r.reason = cmp.Or(r.reason, r.decoder.reason)
	}
	r.closed = true
	s := &r.summary
	broken := false // the body is not JSON
	switch {
	case r.reason != "":
	case r.streamed:
		r.endEvent(r.last, complete) // it counts without its empty line
	case !r.any:
	case rawjson.Check(r.text.Text()) == nil:
		s.addBody(r.dialect, r.text.Text())
		r.countBody()
	default:
		broken = complete
	}
	if s.ended { // whatever breaks off behind it
		complete, truncated = true, false
	}
	r.seen = Seen{Streamed: r.streamed, Ended: s.ended, Cut: !complete, Bare: s.bare}
	if r.counts {
		r.seen.Content, r.seen.Told = int64(r.content), s.usage.told(r.dialect == domain.Messages)
	}
	// How much of broken bytes is decoded depends on the pieces in which they come.
	if r.reason != Encoding {
		r.seen.Model, r.seen.Cost, r.seen.Failed, r.seen.FirstContent = s.model, s.usage.cost, s.failed, s.firstContent
	}
	tokens, ok := s.tokens(r.dialect)
	switch {
	case r.reason != "":
		r.seen.Unknown = r.reason
	case ok:
		r.seen.Tokens = tokens
	case truncated && complete:
		r.seen.Unknown = Encoding
	case broken, s.broken, s.usage.said && (s.final || s.failed):
		r.seen.Unknown = Malformed
	case s.failed:
	case !complete:
		r.seen.Unknown = Aborted
	default:
		r.seen.Unknown = Absent
	}
	if r.text.Reset(); cap(r.text.Text()) <= maxPooled {
		*r.parser = parser{text: r.text}
		parsers.Put(r.parser)
	}
	r.parser = nil
	return r.seen
}
