// Package iolog writes what models are asked and what they answer to a logger of its own.
package iolog

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	jsonv2 "github.com/go-json-experiment/json"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/heldbody"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/usagetap"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/domain/inference/draft"
	"github.com/caddy-presets/caddy-presets/domain/inference/reference"
	"github.com/caddy-presets/caddy-presets/domain/secrets"
	"github.com/caddy-presets/caddy-presets/domain/usage"
	"github.com/caddy-presets/caddy-presets/domain/usage/transcript"
)

// LoggerName is the name of the logger.
const LoggerName = "http.handlers.presets.io"

// loggerName is a module that exists only to get a logger of this name. It is not registered.
type loggerName string

// CaddyModule returns module information with the logger's name as its ID.
func (n loggerName) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: caddy.ModuleID(n), New: func() caddy.Module { return n }}
}

const (
	// maxPending bounds the lines that wait to be written. Further ones are lost. Their texts are bounded by the
	// memory of bodies.
	maxPending = 4096
	// maxWriters bounds the lines that are written at once.
	maxWriters = 2
	// patience is how long Close waits.
	patience = 5 * time.Second
)

// Log writes lines after the clients have their answers. Its methods are safe for concurrent use. A nil one is
// closed.
type Log struct {
	logger   *zap.Logger
	warn     *zap.Logger
	patience time.Duration

	mu      sync.Mutex
	ended   sync.Cond // of mu: there are fewer pending lines, or Close has waited long enough
	waiting []*Entry
	pending int // those, and those that are being written
	writers int
	losses  losses
}

// losses counts lines since the last time when none was pending.
type losses struct{ lost, bare int }

var errDefaultLog = errors.New("inference: io_log: a log that takes everything would get the content of requests: give it a log of its own in the global options, log io { include " +
	LoggerName + " … }; in JSON, write " + LoggerName + " among exclude of the other logs, too")

// New returns a Log to the loggers of a configuration. It fails if one of them is not for content alone: it
// would get the content only because it takes other lines, too. warn gets what is wrong with the Log, without
// content.
func New(ctx caddy.Context, warn *zap.Logger) (*Log, error) {
	logger := ctx.Logger(loggerName(LoggerName)) // to those that include it, and do not exclude it
	if logger.Core().Check(zapcore.Entry{Level: zapcore.InfoLevel, LoggerName: LoggerName + "_other"}, nil) != nil {
		return nil, errDefaultLog
	}
	if !logger.Core().Enabled(zapcore.InfoLevel) {
		warn.Warn("no log takes the content of requests: have a log with include " + LoggerName)
	}
	return newLog(logger, warn), nil
}

func newLog(logger, warn *zap.Logger) *Log {
	l := &Log{logger: logger, warn: warn, patience: patience}
	l.ended.L = &l.mu
	return l
}

// Close waits for the lines of requests that have ended, for some seconds at most, since a receiver may hang. Requests
// may end later, and are logged, too.
func (l *Log) Close() {
	if l == nil {
		return
	}
	isLate := false
	timer := time.AfterFunc(l.patience, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		isLate = true
		l.ended.Broadcast()
	})
	defer timer.Stop()
	l.mu.Lock()
	for l.pending > 0 && !isLate {
		l.ended.Wait()
	}
	pending := l.pending
	l.mu.Unlock()
	if pending > 0 {
		l.warn.Warn("the log of content hangs: lines are not written yet", zap.Int("lines", pending))
	}
}

// begin lets an entry wait to be written, unless too many do. The first line that is lost, or lacks its content, is told at
// once.
func (l *Log) begin(e *Entry) bool {
	l.mu.Lock()
	before, isTaken := l.losses, l.pending < maxPending
	switch {
	case !isTaken:
		l.losses.lost++
	case e.isFull:
		l.losses.bare++
	}
	first := before == losses{} && l.losses != before
	if isTaken {
		l.pending++
		l.waiting = append(l.waiting, e)
		if l.writers < maxWriters {
			l.writers++
			go l.writeAll()
		}
	}
	l.mu.Unlock()
	if first {
		l.warn.Warn("the log of content is too slow, or has too little memory: lines are lost or lack their content")
	}
	return isTaken
}

// writeAll writes lines until none waits.
func (l *Log) writeAll() {
	for {
		l.mu.Lock()
		if len(l.waiting) == 0 {
			l.writers--
			l.mu.Unlock()
			return
		}
		e := l.waiting[0]
		l.waiting[0], l.waiting = nil, l.waiting[1:]
		l.mu.Unlock()
		l.write(e)
		if lost := l.end(); lost != (losses{}) {
			l.warn.Warn("the log of content has caught up", zap.Int("lost_lines", lost.lost), zap.Int("lines_without_content", lost.bare))
		}
	}
}

// end counts a line that was written. If none is pending, it returns what was lost.
func (l *Log) end() (lost losses) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending--; l.pending == 0 {
		lost, l.losses, l.waiting = l.losses, losses{}, nil
	}
	l.ended.Broadcast()
	return lost
}

// write writes the line of a request that has ended.
func (l *Log) write(e *Entry) {
	defer e.memory.ReleaseAll()
	defer e.survive()
	l.logger.Info("inference request", e.fields()...)
}

// Header asks that the content of a request is not logged. It is ours, and does not go up.
const Header = "X-Preset-No-Log"

// TakeHeader takes Header from a request, and reports whether it asks.
func TakeHeader(h http.Header) bool {
	values := h[Header]
	delete(h, Header)
	return len(values) > 0 && strings.EqualFold(values[0], "true")
}

// Setup is what a configuration says of content.
type Setup struct {
	Log       *Log // nil without io_log
	Broadcast bool
	warn      *zap.Logger
}

// NewSetup returns a Setup. See New for its Log.
func NewSetup(ctx caddy.Context, warn *zap.Logger, logs, broadcasts bool) (s Setup, err error) {
	if s.Broadcast, s.warn = broadcasts, warn; logs {
		s.Log, err = New(ctx, warn)
	}
	return s, err
}

// Inert names the fields of a change to a workspace that ask for something which does not happen with s.
func (s Setup) Inert(in *domain.WorkspacePatch) (names []string) {
	add := func(name string, asks bool) {
		if asks {
			names = append(names, name)
		}
	}
	add("is_observability_io_logging_enabled", domain.ValueOr(in.IsObservabilityIOLoggingEnabled, false) && s.Log == nil)
	isSampled := names == nil || s.Broadcast // broadcast is sampled by the same fields
	add("io_logging_sampling_rate", in.IOLoggingSamplingRate != nil && !isSampled)
	add("io_logging_api_key_ids", in.IOLoggingAPIKeyIDs != nil && !isSampled)
	add("is_observability_broadcast_enabled", domain.ValueOr(in.IsObservabilityBroadcastEnabled, false) && !s.Broadcast)
	add("is_data_discount_logging_enabled", !domain.ValueOr(in.IsDataDiscountLoggingEnabled, true))
	return names
}

// Request is what is known of a request before it goes up.
type Request struct {
	Who      domain.Principal
	Session  string        // empty without one
	ID       func() string // of the request
	IsMuted  bool          // nothing of it is logged
	AsksNot  bool          // by Header
	Memory   int64         // for the bodies of all requests. All entries take at most half of that.
	Resolver *inference.Resolver
	Service  *domain.Service
}

// Begin returns an entry for a request, if its workspace logs or broadcasts its content. It tells in the header of the
// response where the key may not ask for Header.
func (s Setup) Begin(r *http.Request, response http.Header, of Request) *Entry {
	if s.Log == nil && !s.Broadcast || of.IsMuted {
		return nil
	}
	logging, err := of.Resolver.Logging(r.Context(), of.Who)
	if err != nil || logging == nil || !logging.Takes(of.Who, of.Session) {
		return nil
	}
	logs, broadcasts := logging.Logs && s.Log != nil, logging.Broadcasts && s.Broadcast && trace.SpanFromContext(r.Context()).IsRecording()
	if !logs && !broadcasts || of.AsksNot && of.Who.MaySkipLogging() {
		return nil
	}
	if of.AsksNot {
		response.Set("X-Preset-Ignored", Header)
	}
	e := &Entry{log: s.Log, warn: s.warn, logs: logs, broadcasts: broadcasts, session: of.Session, requestID: of.ID(), memory: heldbody.Reservation{Limit: of.Memory / 2}}
	if of.Who.Scope != nil { // an issued key
		key, _ := of.Service.KeyOf(r.Context(), of.Who.Hash)
		e.keyName = key.Name
	}
	return e
}

// Entry is what a line will have of one request. It is not safe for concurrent use. A nil one is none.
type Entry struct {
	keyName, requestID, session string

	log              *Log
	warn             *zap.Logger
	used             *usage.Request
	logs, broadcasts bool // where the content goes
	isWritten        bool // and its memory is the Log's

	memory    heldbody.Reservation
	sent      *transcript.Copy // what the client sent, nil if it went up as it was
	request   *transcript.Copy // what went up
	sides     map[*transcript.Copy]transcript.Side
	answer    *transcript.Reader // nil once it is closed
	messages  transcript.Answer  // of it
	hasAnswer bool
	isFull    bool // there was no memory, so it has no content
}

// reserve reserves memory. Where there is none, the entry drops its content, and takes no more.
func (e *Entry) reserve(n int) bool {
	if !e.isFull && e.memory.Add(int64(n)) != nil {
		e.isFull, e.sent, e.request, e.answer = true, nil, nil, nil
		e.memory.ReleaseAll()
	}
	return !e.isFull
}

// copyOf copies a text, unless there is no memory for it. It takes twice the size while it grows.
func (e *Entry) copyOf(text ...[]byte) *transcript.Copy {
	size := 2*min(draft.Body(text).Len(), transcript.MaxSide) + 1<<10
	if !e.reserve(size) {
		return nil
	}
	c := new(transcript.Copy)
	for _, piece := range text {
		c.Add(piece)
	}
	e.memory.Sub(int64(size - c.Size()))
	return c
}

// AddSent copies the request that the client sent.
func (e *Entry) AddSent(text []byte) {
	if e != nil {
		e.sent = e.copyOf(text)
	}
}

// AddRequest copies the request that goes up.
func (e *Entry) AddRequest(body draft.Body) {
	if e != nil {
		e.request = e.copyOf(body...)
	}
}

// Answer returns the function that begins the answer in a dialect, for a usagetap.Tap.
func (e *Entry) Answer(d domain.Dialect) func(streamed bool) func([]byte) {
	return func(streamed bool) func([]byte) {
		answer := transcript.New(d, streamed, e.reserve)
		if !e.isFull {
			e.answer = answer
		}
		return answer.Write
	}
}

// End writes and broadcasts a request that has ended.
func (e *Entry) End(span trace.Span, used *usage.Request) {
	if e == nil {
		return
	}
	if e.used = used; e.broadcasts {
		e.broadcast(span)
	}
	e.isWritten = e.logs && e.log.begin(e)
}

// survive ends a panic, since a flaw in what reads content must not end the server. It tells nothing of the content.
func (e *Entry) survive() {
	if recover() != nil {
		e.warn.Error("a flaw in the log of content: a request is not logged or broadcast", zap.String("request_id", e.requestID), zap.Stack("stack"))
	}
}

// Drop drops an entry that is not written.
func (e *Entry) Drop() {
	if e != nil && !e.isWritten {
		e.memory.ReleaseAll()
	}
}

// sideOf returns the side of a copy, which ends once.
func (e *Entry) sideOf(c *transcript.Copy) transcript.Side {
	if side, ok := e.sides[c]; ok {
		return side
	}
	if e.sides == nil {
		e.sides = make(map[*transcript.Copy]transcript.Side)
	}
	e.sides[c] = c.End()
	return e.sides[c]
}

// closeAnswer returns the answer, which is closed once.
func (e *Entry) closeAnswer() transcript.Answer {
	if e.answer != nil {
		e.messages, e.answer, e.hasAnswer = e.answer.Close(), nil, true
	}
	return e.messages
}

// fields returns the fields of a line.
func (e *Entry) fields() []zap.Field {
	used := e.used
	fields := []zap.Field{
		zap.String("begun", used.Start.UTC().Format("2006-01-02T15:04:05.000Z07:00")),
		zap.String("request_id", e.requestID), zap.String("workspace", used.WorkspaceID),
		zap.String("preset", presetOf(used)), zap.String("label", used.Label),
		zap.String("key_id", used.KeyID), zap.String("key_name", e.keyName),
		zap.Reflect("dialect", used.Dialect), // as clients see it
		zap.String("model_asked", secrets.MaskText(used.Asked)), zap.String("model", secrets.MaskText(used.Model)),
		zap.Int("status", used.Status), zap.Bool("failed", used.Failed), zap.Bool("aborted", used.Aborted), zap.Bool("streamed", used.Streamed),
	}
	if used.Unknown == "" {
		var tokens []zap.Field
		for _, count := range usagetap.CountsOf(used.Tokens) {
			tokens = append(tokens, zap.Int64(count.Name, count.Tokens))
		}
		fields = append(fields, zap.Dict("tokens", tokens...))
	} else {
		fields = append(fields, zap.String("tokens_unknown", string(used.Unknown)))
	}
	if used.HasCost {
		fields = append(fields, zap.String("cost", used.Cost.String()), zap.Bool("cost_estimated", used.Estimated))
	}
	for _, took := range []struct {
		name string
		time time.Duration
	}{{"duration_ms", used.Duration}, {"first_byte_ms", used.FirstByte}, {"first_content_ms", used.FirstContent}} {
		if took.time >= 0 {
			fields = append(fields, zap.Int64(took.name, took.time.Milliseconds()))
		}
	}
	return append(fields, e.content()...)
}

// presetOf returns the preset and the version of a request, "" without one.
func presetOf(used *usage.Request) string {
	if used.Preset == "" {
		return ""
	}
	return used.Preset + "@" + reference.VersionText(used.Version)
}

// content returns the fields with content, and those that tell what they lack.
func (e *Entry) content() (fields []zap.Field) {
	lacks := map[string][]string{}
	note := func(side string, cut, files, keys bool) {
		for what, is := range map[string]bool{"cut": cut, "files": files, "masked": keys} {
			if is {
				lacks[what] = append(lacks[what], side)
			}
		}
	}
	for _, of := range []struct {
		name string
		copy *transcript.Copy
	}{{"sent", e.sent}, {"request", e.request}} {
		if of.copy == nil {
			continue
		}
		side := e.sideOf(of.copy)
		note(of.name, side.Cut, side.Files, side.Keys)
		if side.IsJSON {
			fields = append(fields, zap.Reflect(of.name, json.RawMessage(side.Text)))
		} else {
			fields = append(fields, zap.ByteString(of.name, side.Text))
		}
	}
	if answer := e.closeAnswer(); e.hasAnswer {
		note("answer", answer.Cut, answer.Files, answer.Keys)
		if messages, err := jsonv2.Marshal(answer.Messages); err == nil { // always: its texts are UTF-8
			fields = append(fields, zap.Reflect("answer", json.RawMessage(messages)))
		}
	}
	for _, what := range []string{"cut", "files", "masked"} {
		if sides := lacks[what]; sides != nil {
			fields = append(fields, zap.Strings(what, sides))
		}
	}
	if e.isFull {
		fields = append(fields, zap.Bool("no_memory", true))
	}
	return fields
}
