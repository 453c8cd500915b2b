package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

// TestCounts counts the tokens of a prompt with a preset, through the official clients.
func TestCounts(t *testing.T) {
	t.Parallel()
	t.Run("openai", func(t *testing.T) {
		behind := newService(t, "openai")
		s := startWith(t, "inference", behind.directives())
		s.makePresets(t)
		var response *http.Response
		client := s.openAI(inferenceKey)
		count, err := client.Responses.InputTokens.Count(deadline(t), responses.InputTokenCountParams{
			Model: openai.String("@preset/copywriter"),
			Input: responses.InputTokenCountParamsInputUnion{OfString: openai.String(userText)},
		}, option.WithResponseInto(&response))
		if err != nil || count.InputTokens != 23 {
			t.Fatalf("got %v, %v, want 23 tokens", count, err)
		}
		sent, _ := behind.last()
		checkJSON(t, "upstream", sent.Body, fmt.Sprintf(`{"model": "acme/large", "input": %q, "instructions": "You are a copywriter.",
			"reasoning": {"effort": "low"}, "text": {"verbosity": "low"}}`, userText))
		checkAnswer(t, response, "copywriter@2", "")
		behind.checkSecrets(t)
	})
	t.Run("anthropic", func(t *testing.T) {
		behind := newService(t, "anthropic")
		s := startWith(t, "inference", behind.directives())
		s.makePresets(t)
		var response *http.Response
		client := s.anthropic(anthropicoption.WithAPIKey(inferenceKey))
		count, err := client.Messages.CountTokens(deadline(t), anthropic.MessageCountTokensParams{
			Model: "@preset/copywriter", Messages: messageParams("").Messages,
		}, anthropicoption.WithResponseInto(&response))
		if err != nil || count.InputTokens != 23 {
			t.Fatalf("got %v, %v, want 23 tokens", count, err)
		}
		sent, _ := behind.last()
		checkJSON(t, "upstream", sent.Body, fmt.Sprintf(`{"model": "acme/large", "messages": [{"role": "user", "content": [{"type": "text", "text": %q}]}],
			"system": "You are a copywriter.", "output_config": {"effort": "low"}}`, userText))
		checkAnswer(t, response, "copywriter@2", "text.verbosity")
		_, err = client.Messages.CountTokens(deadline(t), anthropic.MessageCountTokensParams{Model: "@preset/absent", Messages: messageParams("").Messages})
		checkAnthropicError(t, "an unknown preset", err, http.StatusNotFound, anthropic.ErrorTypeNotFoundError, "Preset not found: @preset/absent")
		behind.checkSecrets(t)
	})
}

// TestImages generates images through OpenAI's client: with a preset, and with the workspace's model.
func TestImages(t *testing.T) {
	t.Parallel()
	behind := newService(t, "openai")
	s := startWith(t, "inference {\n usage\n}", behind.directives())
	s.manage(t, http.MethodPost, "/v1/presets/poster/chat/completions",
		`{"model": "gpt-image-2", "temperature": 1, "image_config": {"size": "1024x1024", "quality": "low", "aspect_ratio": "1:1"}}`)
	s.manage(t, http.MethodPatch, "/v1/workspaces/default", `{"default_image_model": "gpt-image-1-mini"}`)
	client := s.openAI(inferenceKey)
	for _, tc := range []struct {
		model, preset, dropped, upstream string
	}{
		{"@preset/poster", "poster@1", "temperature, aspect_ratio", `{"model": "gpt-image-2", "prompt": %q, "background": "opaque", "size": "1024x1024", "quality": "low"}`},
		{"", "", "", `{"model": "gpt-image-1-mini", "prompt": %q, "background": "opaque"}`},
	} {
		var response *http.Response
		images, err := client.Images.Generate(deadline(t), openai.ImageGenerateParams{
			Model: tc.model, Prompt: userText, Background: openai.ImageGenerateParamsBackgroundOpaque,
		}, option.WithResponseInto(&response))
		if err != nil || len(images.Data) != 1 || images.Data[0].B64JSON == "" || images.Usage.TotalTokens != 80 {
			t.Fatalf("%q: got %v, %v, want an image", tc.model, images, err)
		}
		sent, _ := behind.last()
		checkJSON(t, "upstream", sent.Body, fmt.Sprintf(tc.upstream, userText))
		checkAnswer(t, response, tc.preset, tc.dropped)
	}
	_, err := client.Images.Generate(deadline(t), openai.ImageGenerateParams{Model: "@preset/absent", Prompt: userText})
	refused(t, err, http.StatusNotFound, "Preset not found: @preset/absent")
	behind.checkSecrets(t)
}

// TestOpenAIModelOfAPreset reads a preset as a model with the official client. It then
// uses the preset on routes without presets and gets errors.
func TestOpenAIModelOfAPreset(t *testing.T) {
	t.Parallel()
	behind := newService(t, "openai")
	s := startWith(t, "inference {\n list_models on\n}", behind.directives())
	s.makePresets(t)
	client := s.openAI(inferenceKey)
	model, err := client.Models.Get(deadline(t), "@preset/copywriter")
	if err != nil || model.ID != "@preset/copywriter" || model.Object != "model" || model.Created == 0 {
		t.Errorf("got %v, %v, want the preset", model, err)
	}
	_, err = client.Models.Get(deadline(t), "@preset/absent")
	refused(t, err, http.StatusNotFound, "Preset not found: @preset/absent")
	_, err = client.Embeddings.New(deadline(t), openai.EmbeddingNewParams{
		Model: "@preset/copywriter", Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String(userText)},
	})
	refused(t, err, http.StatusBadRequest, "presets work in POST /v1/chat/completions")
	behind.checkSecrets(t)
}

// refused fails the test unless err is the OpenAI client's own error.
func refused(t *testing.T, err error, status int, says string) {
	t.Helper()
	typed, ok := errors.AsType[*openai.Error](err)
	if !ok || typed.StatusCode != status || !strings.Contains(typed.Message, says) {
		t.Errorf("got %v, want the client's own error %d about %q", err, status, says)
	}
}
