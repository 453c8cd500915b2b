package e2e

import (
	"fmt"
	"testing"

	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3/option"
)

// TestSessions lets Caddy choose between two services by X-Session-Id. A session's requests
// reach one service, wherever the client puts the id.
func TestSessions(t *testing.T) {
	t.Parallel()
	one, two := newService(t, "openai"), newService(t, "anthropic")
	// This test reads little of the answers, so both services suit either client.
	s := startWith(t, "inference", `reverse_proxy `+one.server.Listener.Addr().String()+" "+two.server.Listener.Addr().String()+` {
		lb_policy header X-Session-Id
		header_up Authorization "Bearer {env.E2E_GATEWAY_KEY}"
	}`)
	s.makePresets(t)
	openaiClient, anthropicClient := s.openAI(inferenceKey), s.anthropic(anthropicoption.WithAPIKey(inferenceKey))

	// chosen returns which service a request reached.
	chosen := func(request func()) int {
		_, ones := one.last()
		_, twos := two.last()
		request()
		_, onesNow := one.last()
		_, twosNow := two.last()
		switch {
		case onesNow == ones+1 && twosNow == twos:
			return 1
		case onesNow == ones && twosNow == twos+1:
			return 2
		}
		t.Fatalf("the services have %d and %d requests after %d and %d", onesNow, twosNow, ones, twos)
		return 0
	}

	sessions := map[int]int{} // by service
	for i := range 40 {
		id := fmt.Sprintf("session %d", i)
		inBody, inHeader := option.WithJSONSet("session_id", id), option.WithHeader("X-Session-Id", id)
		first := chosen(func() { _, _, _ = openAIChat.send(deadline(t), openaiClient, "@preset/copywriter", inBody) })
		sessions[first]++
		for name, request := range map[string]func(){
			"in the body of a response":    func() { _, _, _ = openAIResponses.send(deadline(t), openaiClient, "@preset/copywriter@1", inBody) },
			"in the body without a preset": func() { _, _, _ = openAIChat.send(deadline(t), openaiClient, "acme/plain", inBody) },
			"in the header":                func() { _, _, _ = openAIChat.send(deadline(t), openaiClient, "@preset/copywriter", inHeader) },
			"in the body of a message": func() {
				_, _ = anthropicClient.Messages.New(deadline(t), messageParams("@preset/assistant"), anthropicoption.WithJSONSet("session_id", id))
			},
			"in a stream": func() {
				stream := anthropicClient.Messages.NewStreaming(deadline(t), messageParams("@preset/copywriter"), anthropicoption.WithHeader("X-Session-Id", id))
				_ = stream.Close()
			},
		} {
			if got := chosen(request); got != first {
				t.Errorf("%s %s: went to service %d, its first request to %d", id, name, got, first)
			}
		}
	}
	if sessions[1] == 0 || sessions[2] == 0 {
		t.Errorf("of 40 sessions %d went to one service and %d to the other", sessions[1], sessions[2])
	}
	one.checkSecrets(t)
	two.checkSecrets(t)
}
