package main

import (
	"fmt"
	"log"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
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

// These in a request ask the upstream for other answers.
const (
	answerUsage  = "bench-usage"
	answerEvents = "bench-events"
)

// usageAnswer is an answer with usage, as gateways give it.
var usageAnswer = `{"id":"resp_1","object":"response","status":"completed","model":"` + model + `","output":[{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[` +
	`{"type":"output_text","annotations":[],"text":"` + strings.Repeat("The quick brown fox jumps over the lazy dog. ", 20) + `"}]}],` + usageMember + `}`

const usageMember = `"usage":{"input_tokens":421,"input_tokens_details":{"cached_tokens":128},"output_tokens":200,"output_tokens_details":{"reasoning_tokens":64},"total_tokens":621}`

// usageEvents returns the events of an answer with usage.
var usageEvents = sync.OnceValue(func() (events [][]byte) {
	for i := range streamEvents - 1 {
		events = append(events, chunk(fmt.Sprintf("event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":%d,\"item_id\":\"msg_1\",\"output_index\":0,\"content_index\":0,\"delta\":\" word\",\"logprobs\":[]}\n\n", i)))
	}
	return append(events, chunk(fmt.Sprintf("event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":%d,\"response\":%s}\n\n", streamEvents-1, usageAnswer)))
})
