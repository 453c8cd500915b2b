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

// These are the config of all presets, a client's request, and the fields of all
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

// store is a folder that was filled, or a cluster that was.
type store struct {
	folder string
	// cluster is nil for a folder.
	cluster *cluster
	// workspaces are the ids of those in it but the default one, and presets is
	// how many are in that.
	workspaces []string
	presets    int
}

// fillers is how many fill a store at the same time, to share commits.
const fillers = 256

// fill stores workspaces and presets in a new folder, past HTTP. Their slugs are
// those of slugOf.
func fill(ctx context.Context, folder string, workspaces, presets int) (store, error) {
	db, err := badger.Open(folder, badger.Options{})
	if err != nil {
		return store{}, err
	}
	filled, err := fillStore(ctx, db, workspaces, presets)
	filled.folder = folder
	return filled, errors.Join(err, db.Close())
}

// fillStore does what fill does in a store that is open.
func fillStore(ctx context.Context, db domain.Store, workspaces, presets int) (store, error) {
	service := domain.NewService(db)
	by := domain.By(domain.Principal{KeyID: "bench", UserID: "bench", Kind: domain.ManagementKey})
	filled := store{workspaces: make([]string, workspaces), presets: presets}
	description, defaultModel := workspaceDescription, model
	capture := domain.Capture{
		Dialect: domain.Responses, SystemPrompt: &prompt,
		Config: []byte(`{"model":"` + model + `",` + settings + `}`),
	}
	err := errors.Join(
		service.EnsureDefaultWorkspace(ctx),
		each(workspaces, func(i int) error {
			made, err := service.CreateWorkspace(ctx, by, domain.NewWorkspace{
				Name: workspaceName, Slug: slugOf(i), Description: &description, DefaultTextModel: &defaultModel,
			})
			filled.workspaces[i] = made.WorkspaceID
			return err
		}),
		each(presets, func(i int) error {
			_, err := service.CreatePresetVersion(ctx, by, "", slugOf(i), capture)
			return err
		}),
	)
	return filled, err
}

// each calls fn for 0 to n-1 from many goroutines. The first error ends it.
func each(n int, fn func(i int) error) error {
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

// storedSlug begins the slugs that fill uses.
const storedSlug = 's'

// slugOf returns the slug of a preset or workspace that fill stored.
func slugOf(i int) string {
	slug := make([]byte, len(variable))
	writeSlug(slug, storedSlug, uint64(i))
	return string(slug)
}

// writeSlug writes a letter and a number over all of a slug.
func writeSlug(slug []byte, letter byte, n uint64) {
	for i := len(slug) - 1; i > 0; i-- {
		slug[i] = byte('0' + n%10)
		n /= 10
	}
	slug[0] = letter
}

// requestBody is an inference request of 2 KB, with settings and a prompt unless
// it is to get them from a preset.
func requestBody(model, settings string) string {
	const size, tail = 2048, `"}]}`
	if settings != "" {
		settings = fmt.Sprintf(`%s,"instructions":"%s",`, settings, prompt)
	}
	head := fmt.Sprintf(`{"model":"%s",%s"stream":false,"input":[{"role":"user","content":"`, model, settings)
	text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", size/45+1)
	return head + text[:size-len(head)-len(tail)] + tail
}

// workspaceBody creates a workspace like those of fill.
const workspaceBody = `{"name":"` + workspaceName + `","slug":"` + variable + `","description":"` + workspaceDescription + `","default_text_model":"` + model + `"}`
