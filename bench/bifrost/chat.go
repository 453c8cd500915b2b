package main

import (
	"context"
	"io"
	"os"
	"slices"

	"github.com/bytedance/sonic"
	bifrost "github.com/maximhq/bifrost/core"
	"github.com/maximhq/bifrost/core/schemas"
	"github.com/valyala/fasthttp"
)

// parameters are the settings of a request. The type has no methods, so that one pass
// decodes a request that embeds it.
type parameters schemas.ChatParameters

// chat is the body of a request. The stored configuration is one, too.
type chat struct {
	Model    string                `json:"model"`
	Messages []schemas.ChatMessage `json:"messages"`
	Stream   bool                  `json:"stream"`
	parameters
}

// readStored reads the stored configuration: a model, settings and a system message.
func readStored(file string) (chat, error) {
	var stored chat
	text, err := os.ReadFile(file)
	if err == nil {
		err = sonic.Unmarshal(text, &stored)
	}
	return stored, err
}

// apply adds the stored configuration to a request, as Bifrost's plugin for prompts does.
// The settings of the request win. The stored messages come first.
func (stored *chat) apply(c *chat) {
	c.Model = stored.Model
	c.Messages = slices.Concat(stored.Messages, c.Messages)
	if c.Temperature == nil {
		c.Temperature = stored.Temperature
	}
	if c.TopP == nil {
		c.TopP = stored.TopP
	}
	if c.MaxCompletionTokens == nil {
		c.MaxCompletionTokens = stored.MaxCompletionTokens
	}
	if c.Tools == nil {
		c.Tools = stored.Tools
	}
}

// handler answers chat requests with the stored configuration applied.
type handler struct {
	client *bifrost.Bifrost
	stored chat
}

func (h *handler) serve(ctx *fasthttp.RequestCtx) {
	if string(ctx.Path()) != "/v1/chat/completions" {
		ctx.Error("unknown path", fasthttp.StatusNotFound)
		return
	}
	var c chat
	if err := sonic.Unmarshal(ctx.PostBody(), &c); err != nil {
		ctx.Error(err.Error(), fasthttp.StatusBadRequest)
		return
	}
	h.stored.apply(&c)
	request := &schemas.BifrostChatRequest{
		Provider: schemas.OpenAI, Model: c.Model, Input: c.Messages, Params: (*schemas.ChatParameters)(&c.parameters),
	}
	within, cancel := schemas.NewBifrostContextWithCancel(context.Background())
	if c.Stream {
		h.stream(ctx, within, cancel, request)
		return
	}
	defer cancel()
	answer, failed := h.client.ChatCompletionRequest(within, request)
	if failed != nil {
		fail(ctx, failed)
		return
	}
	body, err := sonic.Marshal(answer)
	if err != nil {
		ctx.Error(err.Error(), fasthttp.StatusInternalServerError)
		return
	}
	ctx.SetContentType("application/json")
	ctx.SetBody(body)
}

func (h *handler) stream(ctx *fasthttp.RequestCtx, within *schemas.BifrostContext, cancel context.CancelFunc, request *schemas.BifrostChatRequest) {
	chunks, failed := h.client.ChatCompletionStreamRequest(within, request)
	if failed != nil {
		cancel()
		fail(ctx, failed)
		return
	}
	ctx.SetContentType("text/event-stream")
	ctx.SetBodyStream(&events{chunks: chunks, cancel: cancel}, -1)
}

func fail(ctx *fasthttp.RequestCtx, failed *schemas.BifrostError) {
	status := fasthttp.StatusInternalServerError
	if failed.StatusCode != nil {
		status = *failed.StatusCode
	}
	body, err := sonic.Marshal(failed)
	if err != nil {
		body = []byte(err.Error())
	}
	ctx.SetStatusCode(status)
	ctx.SetContentType("application/json")
	ctx.SetBody(body)
}

// events reads as the events of a stream. fasthttp sends what one Read returns at once.
type events struct {
	chunks chan *schemas.BifrostStreamChunk
	cancel context.CancelFunc
	rest   []byte // of the event that is being read
	ended  bool
}

func (e *events) Read(p []byte) (int, error) {
	if len(e.rest) == 0 {
		if e.ended {
			return 0, io.EOF
		}
		chunk, more := <-e.chunks
		if more {
			body, err := sonic.Marshal(chunk)
			if err != nil {
				return 0, err
			}
			e.rest = append(append(append(e.rest, "data: "...), body...), "\n\n"...)
		} else {
			e.rest, e.ended = []byte("data: [DONE]\n\n"), true
		}
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// Close ends the stream. fasthttp calls it after the last Read.
func (e *events) Close() error {
	e.cancel()
	return nil
}
