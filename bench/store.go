package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/badger"
)

// These are the config of all presets, the request of a client, and the fields of all
// workspaces.
const (
	model    = "openai/gpt-5-mini"
	settings = `"temperature":0.7,"top_p":0.9,"max_output_tokens":512,"reasoning":{"effort":"high"},"text":{"verbosity":"low"},` +
		`"tools":[{"type":"function","name":"look_up","description":"Looks up an order by its number.","parameters":` +
		`{"type":"object","properties":{"number":{"type":"string"}},"required":["number"]}}]`
	workspaceName        = "Support"
	workspaceDescription = "Who answers the customers"
)

var prompt = strings.Repeat("Answer as the support team does. ", 20)

// store is a filled folder or a filled cluster.
type store struct {
	folder string
	// cluster is nil if the store is a folder.
	cluster *cluster
	// workspaces are the ids of all workspaces except default. presets is the number of
	// presets in default.
	workspaces []string
	presets    int
}

// fillers is the number of concurrent writers that fill a store. They share commits.
const fillers = 256

// fill stores workspaces and presets in a new folder, without HTTP. slugOf gives their
// slugs.
func fill(ctx context.Context, folder string, workspaces, presets int) (store, error) {
	return fillWith(ctx, folder, workspaces, presets, storedCapture())
}

func fillWith(ctx context.Context, folder string, workspaces, presets int, capture domain.Capture) (store, error) {
	db, err := badger.Open(folder, badger.Options{})
	if err != nil {
		return store{}, err
	}
	filled, err := fillStore(ctx, db, workspaces, presets, capture)
	filled.folder = folder
	return filled, errors.Join(err, db.Close())
}

// storedCapture returns the content of the presets of fill.
func storedCapture() domain.Capture {
	return domain.Capture{
		Dialect: domain.Responses, SystemPrompt: &prompt,
		Config: []byte(`{"model":"` + model + `",` + settings + `}`),
	}
}

// fillStore fills an open store like fill. All presets have the same content.
func fillStore(ctx context.Context, db domain.Store, workspaces, presets int, capture domain.Capture) (store, error) {
	service := domain.NewService(db)
	by := domain.By(domain.Principal{KeyID: "bench", UserID: "bench", Kind: domain.ManagementKey})
	filled := store{workspaces: make([]string, workspaces), presets: presets}
	description, defaultModel := workspaceDescription, model
	err := errors.Join(
		service.EnsureDefaultWorkspace(ctx),
		forEach(workspaces, func(i int) error {
			made, err := service.CreateWorkspace(ctx, by, domain.WorkspacePatch{
				Name: new(workspaceName), Slug: new(slugOf(i)), Description: domain.Settable[string]{Given: true, Value: &description}, DefaultTextModel: domain.Settable[string]{Given: true, Value: &defaultModel},
			})
			filled.workspaces[i] = made.WorkspaceID
			return err
		}),
		forEach(presets, func(i int) error {
			_, err := service.ReleasePresetVersion(ctx, by, "", slugOf(i), capture, domain.Release{})
			return err
		}),
	)
	return filled, err
}

// forEach calls fn for 0 to n-1 from many goroutines. The first error ends it.
func forEach(n int, fn func(i int) error) error {
	var (
		wg     sync.WaitGroup
		next   atomic.Int64
		failed = make([]error, fillers)
	)
	for filler := range failed {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if failed[filler] = fn(int(i)); failed[filler] != nil {
					next.Store(int64(n))
					return
				}
			}
		})
	}
	wg.Wait()
	return cmp.Or(failed...)
}

// storedSlug is the first letter of the slugs that fill uses.
const storedSlug = 's'

// slugOf returns the slug of a preset or workspace that fill stored.
func slugOf(i int) string {
	slug := make([]byte, len(variable))
	writeSlug(slug, storedSlug, uint64(i))
	return string(slug)
}

// writeSlug overwrites a slug with a letter and a number.
func writeSlug(slug []byte, letter byte, n uint64) {
	for i := len(slug) - 1; i > 0; i-- {
		slug[i] = byte('0' + n%10)
		n /= 10
	}
	slug[0] = letter
}

// requestBody returns an inference request of 2 KB. It has a prompt and settings only if
// settings is not empty.
func requestBody(model, settings string) string {
	const size, tail = 2048, `"}]}`
	if settings != "" {
		settings = fmt.Sprintf(`%s,"instructions":"%s",`, settings, prompt)
	}
	head := fmt.Sprintf(`{"model":"%s",%s"stream":false,"input":[{"role":"user","content":"`, model, settings)
	text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", size/45+1)
	return head + text[:size-len(head)-len(tail)] + tail
}

// workspaceBody is the body that creates a workspace like those of fill.
const workspaceBody = `{"name":"` + workspaceName + `","slug":"` + variable + `","description":"` + workspaceDescription + `","default_text_model":"` + model + `"}`
