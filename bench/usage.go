package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"
)

// The measured work of the group usage. Two servers are without usage, which shows the noise
// of a comparison.
const (
	usageOffWork    = "preset, usage off"
	usageAgainWork  = "preset, usage off again"
	usageOnWork     = "preset, usage on"
	streamOffWork   = "200 events, usage off"
	streamAgainWork = "200 events, usage off again"
	streamOnWork    = "200 events, usage on"
)

// firstEventFigure names the median time to the first event of a stream.
func firstEventFigure(work string) string { return "time to the first event: " + work }

// firstEvents is how many streams a server answers for a median.
const firstEvents = 500

// measureUsage compares servers with and without usage. All else of them is the shipped
// configuration.
func (b *bench) measureUsage() error {
	var requests, streams []trial
	var streamRequests []*request
	for i, of := range []struct {
		work, streamWork string
		change           func(string) (string, error)
	}{
		{usageOffWork, streamOffWork, withoutUsage},
		{usageOnWork, streamOnWork, unchanged},
		{usageAgainWork, streamAgainWork, withoutUsage},
	} {
		s, err := fill(b.ctx, filepath.Join(b.folder, fmt.Sprintf("store-usage-%d", i)), 1, hotPresets)
		if err != nil {
			return err
		}
		o, err := b.startOursWith(s, of.change)
		if err != nil {
			return err
		}
		defer o.stop()
		request, stream := o.inferPath(answerUsage, len(usageAnswer)), o.inferPath(answerEvents, 0)
		requests = append(requests, trial{work: of.work, open: request.connect})
		streams = append(streams, trial{work: of.streamWork, open: stream.connectStream})
		streamRequests = append(streamRequests, stream)
	}
	if err := b.takeTurns(usageGroup, b.rounds, b.lasting, step{b.clients, requests}, step{1, requests}, step{b.clients, streams}); err != nil {
		return err
	}
	for round := range b.rounds {
		log.Printf("%s: first events, round %d of %d", usageGroup, round+1, b.rounds)
		for i, t := range streams {
			took, err := timeFirstEvents(streamRequests[i], min(firstEvents, int(b.lasting/time.Millisecond)))
			if err != nil {
				return err
			}
			b.record(firstEventFigure(t.work), "µs", float64(took.Nanoseconds())/1e3)
		}
	}
	return b.measureUsedStore()
}

// judgeUsage adds the rows of the group usage.
func (b *bench) judgeUsage(j judge) {
	j.row("preset request, usage on, to off", "×", atLeast(0.97), j.rateRatio(usageGroup, usageOnWork, usageOffWork))
	j.noise("… off again, to off", "×", j.rateRatio(usageGroup, usageAgainWork, usageOffWork))
	j.row("… p50 added by usage, 1 connection", "µs", atMost(5), j.added(usageGroup, usageOnWork, usageOffWork))
	j.noise("… off again", "µs", j.added(usageGroup, usageAgainWork, usageOffWork))
	j.row("processor time of a stream of 200 events, usage on, to off", "×", atMost(1.05), j.cpuRatio(usageGroup, streamOnWork, streamOffWork))
	j.noise("… off again, to off", "×", j.cpuRatio(usageGroup, streamAgainWork, streamOffWork))
	first := func(work string) []float64 { return b.recorded(firstEventFigure(work)) }
	j.row("… time to its first event added by usage, 1 connection", "µs", atMost(50), difference(first(streamOnWork), first(streamOffWork)))
	j.noise("… off again", "µs", difference(first(streamAgainWork), first(streamOffWork)))
	b.judgeUsedStore(j)
}

func unchanged(text string) (string, error) { return text, nil }

// withoutUsage takes usage out of the shipped configuration.
func withoutUsage(text string) (string, error) {
	const line = "\t\t\tusage\n"
	if strings.Count(text, line) != 1 {
		return "", fmt.Errorf("the shipped Caddyfile has no line %q any more", line)
	}
	return strings.Replace(text, line, "", 1), nil
}

// inferPath returns an inference request that names presets in turn. answer is one that the
// upstream knows.
func (o *ours) inferPath(answer string, size int) *request {
	body := strings.Replace(requestBody("@preset/"+variable, ""), `"stream":false`, `"stream":true`, 1)
	r := newRequest(o.address, http.MethodPost, "/v1/responses?"+answer, o.inference, body, http.StatusOK,
		takeEachInTurn(hotPresets, func(part []byte, i int) { writeSlug(part, storedSlug, uint64(i)) }))
	r.size = size
	return r
}

// streamConnection reads answers of events, which are chunked.
type streamConnection struct {
	*connection
	begun, first time.Time // of the last answer: the request and the first event
}

func (r *request) connectStream(client int) (session, error) {
	s, err := r.connect(client)
	if err != nil {
		return nil, err
	}
	return &streamConnection{connection: s.(*connection)}, nil
}

var lastChunk = []byte("\r\n0\r\n\r\n")

func (c *streamConnection) once() error {
	c.fill(c.text[c.slot:][:len(variable)], c.client)
	c.begun, c.first = time.Now(), time.Time{}
	if _, err := c.conn.Write(c.text); err != nil {
		return err
	}
	seen := 0 // bytes in the buffer: the head, and then the end of what was read
	for {
		n, err := c.conn.Read(c.buffer[seen:])
		if err != nil {
			return fmt.Errorf("reading a stream: %w", err)
		}
		seen += n
		if c.first.IsZero() && bytes.Contains(c.buffer[:seen], []byte("data: ")) {
			if c.first = time.Now(); !bytes.HasPrefix(c.buffer, []byte("HTTP/1.1 200 ")) {
				return fmt.Errorf("got:\n%.1000s", c.buffer[:seen])
			}
		}
		if bytes.HasSuffix(c.buffer[:seen], lastChunk) {
			return nil
		}
		if !c.first.IsZero() {
			seen = copy(c.buffer, c.buffer[max(0, seen-len(lastChunk)):seen])
		}
	}
}

// timeFirstEvents returns the median time to the first event of n streams, one after another.
func timeFirstEvents(r *request, n int) (time.Duration, error) {
	s, err := r.connectStream(0)
	if err != nil {
		return 0, err
	}
	defer s.close()
	c := s.(*streamConnection)
	if err := c.conn.SetDeadline(time.Now().Add(time.Duration(n)*time.Second + grace)); err != nil {
		return 0, err
	}
	var took histogram
	for range max(n, 1) {
		if err := c.once(); err != nil {
			return 0, err
		}
		took.record(c.first.Sub(c.begun))
	}
	return took.quantile(0.5), nil
}

// These in a request ask the upstream for other answers.
const (
	answerUsage  = "bench-usage"
	answerEvents = "bench-events"
)

// usageAnswer is an answer with usage, as gateways give it.
var usageAnswer = `{"id":"resp_1","object":"response","status":"completed","model":"` + model + `","output":[{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[` +
	`{"type":"output_text","annotations":[],"text":"` + strings.Repeat("The quick brown fox jumps over the lazy dog. ", 20) + `"}]}],` + usageMember + `}`

const usageMember = `"usage":{"input_tokens":421,"input_tokens_details":{"cached_tokens":128},"output_tokens":200,"output_tokens_details":{"reasoning_tokens":64},"total_tokens":621}`

// answerInEvents answers with 200 events, and writes each apart.
func answerInEvents(conn net.Conn) error {
	if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
		return err
	}
	const events = 200
	for i := range events {
		event := fmt.Appendf(nil, "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":%d,\"item_id\":\"msg_1\",\"output_index\":0,\"content_index\":0,\"delta\":\" word\",\"logprobs\":[]}\n\n", i)
		if i == events-1 {
			event = fmt.Appendf(nil, "event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":%d,\"response\":%s}\n\n", i, usageAnswer)
		}
		if _, err := fmt.Fprintf(conn, "%x\r\n%s\r\n", len(event), event); err != nil {
			return err
		}
	}
	_, err := io.WriteString(conn, "0\r\n\r\n")
	return err
}
