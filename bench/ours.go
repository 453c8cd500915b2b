package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
)

// ours is a running Caddy with presets and a store.
type ours struct {
	*server
	store
	address, admin        string
	management, inference string // keys
	serial                *atomic.Uint64
}

// startOurs starts Caddy with the shipped configuration and a store. For etcd it changes
// the line that names the engine.
func (b *bench) startOurs(s store) (*ours, error) {
	if s.cluster != nil {
		return b.startOursWith(s, s.cluster.storage)
	}
	return b.startOursWith(s, unchanged)
}

// startOursWith starts Caddy with a change of the shipped configuration.
func (b *bench) startOursWith(s store, change func(string) (string, error)) (*ours, error) {
	o := &ours{store: s, serial: &b.serial}
	addresses := reserveAddresses(2)
	o.address, o.admin = addresses[0], addresses[1]
	binary := b.presets
	if s.cluster != nil {
		binary = s.cluster.caddy
	}
	file, err := b.caddyfile(change)
	if err != nil {
		return nil, err
	}
	env := append(listenOn(o.address), "CADDY_ADMIN="+o.admin, "PRESETS_DATA="+s.folder, "PRESETS_UPSTREAM="+b.upstream)
	refused := newRequest(o.address, http.MethodGet, "/v1/workspaces/default", "nobody", "", http.StatusUnauthorized, nil)
	if o.server, err = b.start(b.command(binary, "run", "--config", file, "--adapter", "caddyfile"), env, refused); err != nil {
		return nil, err
	}
	for kind, key := range map[string]*string{"management": &o.management, "inference": &o.inference} {
		out, err := b.command(binary, "presets", "key", "create", "--kind", kind, "--address", o.admin).Output()
		if err != nil {
			return nil, o.failed(fmt.Errorf("creating a key: %w", err))
		}
		*key = strings.TrimSpace(string(out))
	}
	return o, nil
}

func (b *bench) command(binary string, args ...string) *exec.Cmd {
	return exec.CommandContext(b.ctx, binary, args...) //nolint:gosec // built by this program
}

// listenOn returns the environment that makes the shipped configuration listen on an
// address.
func listenOn(address string) []string {
	host, port, _ := net.SplitHostPort(address)
	return []string{"PRESETS_HOST=" + host, "PRESETS_PORT=" + port}
}

// caddyfile writes the shipped configuration, with a change, to a file. Its echo gateway
// gets a reserved port. No request uses it here.
func (b *bench) caddyfile(change func(string) (string, error)) (string, error) {
	shipped, err := os.ReadFile(filepath.Join(mainModule, "Caddyfile.example"))
	if err != nil {
		return "", err
	}
	addresses := reserveAddresses(1)
	const site = "http://:8081 {"
	before, after, found := strings.Cut(string(shipped), site)
	if !found {
		return "", fmt.Errorf("the shipped Caddyfile has no %q any more", site)
	}
	text, err := change(before + "http://" + addresses[0] + " {" + after)
	if err != nil {
		return "", err
	}
	file, err := os.CreateTemp(b.folder, "Caddyfile-")
	if err != nil {
		return "", err
	}
	_, err = file.WriteString(text)
	return file.Name(), errors.Join(err, file.Close())
}

// manage returns a request to the API of presets and workspaces.
func (o *ours) manage(method, path, body string, status int, fill func([]byte, int)) *request {
	return newRequest(o.address, method, "/v1"+path, o.management, body, status, fill)
}

func (o *ours) get(path string) *request {
	return o.manage(http.MethodGet, path, "", http.StatusOK, nil)
}

// writeUnusedSlug writes a slug that no object has.
func (o *ours) writeUnusedSlug(part []byte, _ int) { writeSlug(part, 'n', o.serial.Add(1)) }

// writeClientSlug writes the client's own slug.
func writeClientSlug(part []byte, client int) { writeSlug(part, 'c', uint64(client)) }

// writeSharedSlug writes the one slug that all clients share.
func writeSharedSlug(part []byte, _ int) { writeSlug(part, 'a', 0) }

// takeEachInTurn calls write for each of n numbers in turn. Successive numbers are far apart.
func takeEachInTurn(n int, write func(part []byte, i int)) func(part []byte, client int) {
	const stride = 7919 // prime
	var next atomic.Uint64
	return func(part []byte, _ int) { write(part, int(next.Add(stride)%uint64(n))) }
}

func (o *ours) getWorkspace() *request {
	r := o.get("/workspaces/" + variable)
	r.fill = takeEachInTurn(len(o.workspaces), func(part []byte, i int) { copy(part, o.workspaces[i]) })
	return r
}

// pages returns a request for full pages of a list, at n offsets in turn.
func (o *ours) pages(list string, first, n int) *request {
	r := o.get(fmt.Sprintf("/%s?limit=%d&offset=%s", list, pageSize, variable))
	r.fill = takeEachInTurn(n, func(part []byte, i int) {
		copy(part, fmt.Appendf(nil, "%d&pad=%036d", first+i, 0)) // a parameter that the server ignores
	})
	return r
}

const (
	pageSize = 50
	// manyPages exceeds the 48 MiB that a server caches. One page has 20 to 30 KB.
	manyPages = 5000
)

func (o *ours) passThrough() *request {
	return gatewayRequest(o.address, "/v1/embeddings", o.inference, model, nil)
}

func (o *ours) infer() *request {
	return gatewayRequest(o.address, "/v1/responses", o.inference, model, nil)
}

// inferWith returns an inference request that names the first n presets in turn.
func (o *ours) inferWith(n int) *request {
	return gatewayRequest(o.address, "/v1/responses", o.inference, "@preset/"+variable,
		takeEachInTurn(n, func(part []byte, i int) { writeSlug(part, storedSlug, uint64(i)) }))
}

func (o *ours) postWorkspace() *request {
	return o.manage(http.MethodPost, "/workspaces", workspaceBody, http.StatusCreated, o.writeUnusedSlug)
}

// postPreset returns a POST of 2 KB that adds a version to a preset. fill writes the
// preset's slug.
func (o *ours) postPreset(fill func([]byte, int)) *request {
	return o.manage(http.MethodPost, "/presets/"+variable+"/responses", requestBody(model, settings), http.StatusOK, fill)
}

func (o *ours) newWorkspaces() trial {
	return trial{work: postWorkspaceWork, open: o.postWorkspace().connect, stored: func() (int, error) {
		return o.countListed("/workspaces")
	}}
}

func (o *ours) newPresets() trial {
	return trial{work: newPresetWork, open: o.postPreset(o.writeUnusedSlug).connect, stored: func() (int, error) {
		return o.countListed("/presets")
	}}
}

// newVersions adds versions to presets whose slugs fill writes, which are one or
// one of each client. It creates them.
func (o *ours) newVersions(work string, clients int, fill func([]byte, int)) (trial, error) {
	slugs := make([]string, clients)
	for i := range slugs {
		slug := make([]byte, len(variable))
		fill(slug, i)
		slugs[i] = string(slug)
		create := o.postPreset(func(part []byte, _ int) { copy(part, slug) })
		if _, _, err := create.ask(); err != nil {
			return trial{}, err
		}
	}
	return trial{work: work, open: o.postPreset(fill).connect, stored: func() (sum int, err error) {
		for _, slug := range slugs {
			n, err := o.countListed("/presets/" + slug + "/versions")
			if err != nil {
				return 0, err
			}
			sum += n
		}
		return sum, nil
	}}, nil
}

// countListed returns the total_count of the list at a path.
func (o *ours) countListed(path string) (int, error) {
	_, body, err := o.get(path + "?limit=1").ask()
	if err != nil {
		return 0, err
	}
	var list struct {
		Total int `json:"total_count"`
	}
	err = json.Unmarshal(body, &list)
	return list.Total, err
}

// workspace returns the answer to a request for the first workspace.
func (o *ours) workspace() ([]byte, error) {
	_, body, err := o.get("/workspaces/" + o.workspaces[0]).ask()
	if err != nil {
		return nil, err
	}
	for _, part := range []string{o.workspaces[0], slugOf(0)} {
		if !bytes.Contains(body, []byte(part)) {
			return nil, fmt.Errorf("got %s, want %s in it", body, part)
		}
	}
	return body, nil
}

// check checks the answers of the server.
func (o *ours) check() error {
	_, err := o.workspace()
	return errors.Join(
		err,
		checkUntouched(o.address, "/v1/embeddings", o.inference),
		checkUntouched(o.address, "/v1/responses", o.inference),
		checkResolved(o.address, o.inference, slugOf(o.presets-1)),
		o.checkStored(o.postWorkspace(), "/workspaces/"),
		o.checkStored(o.postPreset(o.writeUnusedSlug), "/presets/"),
	)
}

// checkPage checks that a page of a list is full.
func (o *ours) checkPage(list string, offset int) error {
	_, body, err := o.pages(list, offset, 1).ask()
	if err != nil {
		return err
	}
	var page struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return err
	}
	if len(page.Data) != pageSize || page.Data[0].ID == "" {
		return fmt.Errorf("%s from %d: got %d objects, want %d", list, offset, len(page.Data), pageSize)
	}
	return nil
}

// checkStored checks that the object a request creates can be read below a path.
func (o *ours) checkStored(create *request, path string) error {
	_, created, err := create.ask()
	if err != nil {
		return err
	}
	var object struct {
		Data struct {
			Slug string `json:"slug"`
		} `json:"data"`
	}
	if err := json.Unmarshal(created, &object); err != nil {
		return err
	}
	_, stored, err := o.get(path + object.Data.Slug).ask()
	if err == nil && !bytes.Equal(created, stored) {
		err = fmt.Errorf("was told %s, and then reads %s", created, stored)
	}
	return err
}
