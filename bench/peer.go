package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"
)

// pocketBase is a PocketBase with a collection of workspaces.
type pocketBase struct {
	*server
	address string
	serial  *atomic.Uint64
}

func (b *bench) startPocketBase() (*pocketBase, error) {
	binary, err := b.build(pocketBaseModule, ".", "pocketbase")
	if err != nil {
		return nil, fmt.Errorf("%w(-skip-pocketbase leaves it out)", err)
	}
	addresses := reserveAddresses(1)
	p := &pocketBase{address: addresses[0], serial: &b.serial}
	cmd := b.command(binary, "-folder", filepath.Join(b.folder, "pocketbase-data"), "-address", p.address)
	p.server, err = b.start(cmd, nil, p.get("?perPage=1"))
	return p, err
}

const records = "/api/collections/workspaces/records"

func (p *pocketBase) get(path string) *request {
	return newRequest(p.address, http.MethodGet, records+path, "nobody", "", http.StatusOK, nil)
}

func (p *pocketBase) create() *request {
	return newRequest(p.address, http.MethodPost, records, "nobody", workspaceBody, http.StatusOK,
		func(part []byte, _ int) { writeSlug(part, 'n', p.serial.Add(1)) })
}

// list returns the number of records, and the ids of some of them.
func (p *pocketBase) list() (total int, ids []string, err error) {
	_, body, err := p.get("?perPage=1000&fields=id").ask()
	if err != nil {
		return 0, nil, err
	}
	var list struct {
		TotalItems int                   `json:"totalItems"`
		Items      []struct{ ID string } `json:"items"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return 0, nil, err
	}
	for _, item := range list.Items {
		ids = append(ids, item.ID)
	}
	return list.TotalItems, ids, nil
}

func (p *pocketBase) stored() (int, error) {
	total, _, err := p.list()
	return total, err
}

// fill creates a thousand records and checks that they can be read. It returns a request
// that reads them in turn.
func (p *pocketBase) fill() (*request, error) {
	create := p.create()
	if err := forEach(1000, func(int) error {
		_, created, err := create.ask()
		if err != nil {
			return err
		}
		return p.checkStored(created)
	}); err != nil {
		return nil, err
	}
	_, ids, err := p.list()
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 || len(ids[0]) != len(variable) {
		return nil, fmt.Errorf("PocketBase lists %d records, want ids of %d characters", len(ids), len(variable))
	}
	get := p.get("/" + variable)
	get.fill = takeEachInTurn(len(ids), func(part []byte, i int) { copy(part, ids[i]) })
	return get, nil
}

func (p *pocketBase) checkStored(created []byte) error {
	var record struct{ ID string }
	if err := json.Unmarshal(created, &record); err != nil {
		return err
	}
	_, stored, err := p.get("/" + record.ID).ask()
	if err == nil && !bytes.Equal(created, stored) {
		err = fmt.Errorf("PocketBase: was told %s, and then reads %s", created, stored)
	}
	return err
}
