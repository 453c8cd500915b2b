package main

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/caddy-presets/caddy-presets/bench/result"
	"github.com/caddy-presets/caddy-presets/schema"
)

// These are the groups that -only can name. The trials of one group alternate.
const (
	reads       = "reads"
	gateway     = "gateway"
	busy        = "busy"
	writes      = "writes"
	peer        = "peer"
	etcdEngine  = "etcd"
	growth      = "growth"
	waiting     = "waiting"
	connections = "connections"
	usageGroup  = "usage"
	gateways    = "gateways"
)

var groupNames = []string{reads, gateway, busy, writes, peer, etcdEngine, growth, waiting, connections, usageGroup, gateways}

// The measured work.
const (
	generatorWork      = "load generator alone"
	respondWork        = "stock Caddy respond"
	proxyWork          = "stock Caddy reverse_proxy"
	badgerWork         = "Badger synced commit"
	pocketCreateWork   = "PocketBase create"
	pocketGetWork      = "PocketBase get"
	getWork            = "GET workspace"
	workspacesWork     = "GET 50 workspaces"
	presetsWork        = "GET 50 presets"
	samePresetsWork    = "GET 50 presets, the same again"
	passWork           = "pass-through"
	inferWork          = "inference, no preset"
	resolveWork        = "inference, 100 presets"
	resolveAnyWork     = "inference, all presets"
	postWorkspaceWork  = "POST workspace"
	newPresetWork      = "POST preset, new slug"
	newVersionWork     = "POST preset, new version"
	oneSlugWork        = "POST preset, one slug"
	putWork            = "etcd put"
	putVersionWork     = "etcd put, 2 KB"
	httpPutWork        = "HTTP server, etcd put"
	httpPutVersionWork = "HTTP server, etcd put, 2 KB"
)

// hotPresets is the number of presets that inference uses, if it does not use all.
const hotPresets = 100

// measureGroup measures a group with our server and stock Caddy.
func (b *bench) measureGroup(group string, ours *ours, stock *stock) error {
	switch group {
	case reads:
		return b.measureReads(ours, stock)
	case gateway:
		return b.measureGateway(ours, stock)
	case busy:
		return b.measureBusy(ours, stock)
	case writes:
		return b.measureWrites(ours, stock)
	case peer:
		return b.measurePeer(ours)
	case etcdEngine:
		return b.measureEtcd()
	case growth:
		return b.measureGrowth(stock)
	case waiting:
		return b.measureWaiting(ours, stock)
	case usageGroup:
		return b.measureUsage()
	case gateways:
		return b.measureGateways(stock)
	default:
		return b.measureConnections(ours, stock)
	}
}

func (b *bench) measureReads(ours *ours, stock *stock) error {
	n := min(manyPages, b.stored+1)
	for _, offset := range []int{0, n - 1, b.stored} {
		for _, list := range []string{"workspaces", "presets"} {
			if err := ours.checkPage(list, offset); err != nil {
				return err
			}
		}
	}
	fixed := newRequest(b.upstream, http.MethodGet, "/", "nobody", "", http.StatusOK, nil)
	fixed.size = len(upstreamAnswer)
	respond := trial{work: respondWork, open: stock.get().connect}
	get := trial{work: getWork, open: ours.getWorkspace().connect}
	return b.takeTurns(reads, b.rounds, b.lasting,
		step{b.clients, []trial{
			{work: generatorWork, open: fixed.connect},
			respond,
			get,
			{work: workspacesWork, open: ours.pages("workspaces", 0, n).connect},
			{work: presetsWork, open: ours.pages("presets", 0, n).connect},
			{work: samePresetsWork, open: ours.pages("presets", 0, 1).connect}, // as a dashboard does
		}},
		step{1, []trial{respond, get}},
	)
}

func (b *bench) measureGateway(ours *ours, stock *stock) error {
	trials := []trial{
		{work: proxyWork, open: stock.infer().connect},
		{work: passWork, open: ours.passThrough().connect},
		{work: inferWork, open: ours.infer().connect},
		{work: resolveWork, open: ours.inferWith(min(hotPresets, ours.presets)).connect},
	}
	return b.takeTurns(gateway, b.rounds, b.lasting, step{b.clients, trials}, step{1, trials})
}

func (b *bench) measureWrites(ours *ours, stock *stock) error {
	newVersion, err := ours.newVersions(newVersionWork, b.clients, writeClientSlug)
	if err != nil {
		return err
	}
	oneSlug, err := ours.newVersions(oneSlugWork, 1, writeSharedSlug)
	if err != nil {
		return err
	}
	commit, post := b.rawBadger(stock.bytes), ours.newWorkspaces()
	if err := b.takeTurns(writes, b.rounds, b.lasting,
		step{b.clients, []trial{commit, post, ours.newPresets(), newVersion, oneSlug}},
		step{1, []trial{commit, post}},
	); err != nil {
		return err
	}
	return b.measureValidation()
}

// validationFigure names the time to check the body of POST workspace.
const validationFigure = "validation of a workspace"

func (b *bench) measureValidation() error {
	schemas, err := schema.Load()
	if err != nil {
		return err
	}
	const times = 5000
	body := []byte(strings.Replace(workspaceBody, variable, slugOf(0), 1))
	for range b.rounds {
		begun := time.Now()
		for range times {
			if _, err := schemas.CreateWorkspace.Check(body); err != nil {
				return err
			}
		}
		b.record(validationFigure, "µs", float64(time.Since(begun).Microseconds())/times)
	}
	return nil
}

func (b *bench) measurePeer(ours *ours) error {
	if !b.pocketBase {
		return nil
	}
	p, err := b.startPocketBase()
	if err != nil {
		return err
	}
	defer p.stop()
	get, err := p.fill()
	if err != nil {
		return err
	}
	return b.takeTurns(peer, b.rounds, b.lasting, step{b.clients, []trial{
		{work: pocketCreateWork, open: p.create().connect, stored: p.stored},
		ours.newWorkspaces(),
		{work: pocketGetWork, open: get.connect},
		{work: getWork, open: ours.getWorkspace().connect},
	}})
}

func (b *bench) measureConnections(ours *ours, stock *stock) error {
	trials := []trial{
		{work: respondWork, open: stock.get().connect},
		{work: getWork, open: ours.getWorkspace().connect},
		{work: proxyWork, open: stock.infer().connect},
		{work: inferWork, open: ours.infer().connect},
		{work: resolveWork, open: ours.inferWith(min(hotPresets, ours.presets)).connect},
		b.rawBadger(stock.bytes),
		ours.newWorkspaces(),
		ours.newPresets(),
	}
	var steps []step
	for _, clients := range b.sweep {
		steps = append(steps, step{clients, trials})
	}
	return b.takeTurns(connections, b.sweepRounds, b.lasting/2, steps...)
}

// Figures of the start and the memory of a server.
const (
	startFigure        = "start"
	idleFigure         = "memory of its own, idle"
	idleResidentFigure = "resident memory with mapped files, idle"
	loadedFigure       = "memory of its own, under load"
	residentFigure     = "resident memory with mapped files, under load"
)

// figureOf returns the name of a figure, of stock Caddy or of our server. presets is the
// number of presets stored, 0 for stock Caddy.
func figureOf(figure string, presets int) string {
	if presets == 0 {
		return figure + ": stock Caddy"
	}
	return fmt.Sprintf("%s: %s presets", figure, groupDigits(presets))
}

// measureGrowth measures stock Caddy, and our server with more and more presets. Each
// server is started again in each round.
func (b *bench) measureGrowth(like *stock) error {
	var stores []store
	for _, presets := range b.sizes {
		log.Printf("%s: storing %s presets", growth, groupDigits(presets))
		s, err := b.fillGrowth(presets)
		if err != nil {
			return err
		}
		stores = append(stores, s)
	}
	for round := range b.rounds {
		log.Printf("%s: round %d of %d", growth, round+1, b.rounds)
		if err := b.measureStock(like); err != nil {
			return err
		}
		for i, s := range stores {
			if err := b.measureOurs(s); err != nil {
				return err
			}
			if s.presets > smallStore {
				continue // one round adds little
			}
			if err := os.RemoveAll(s.folder); err != nil {
				return err
			}
			var err error
			if stores[i], err = b.fillGrowth(s.presets); err != nil {
				return err
			}
		}
	}
	return nil
}

// smallStore is the largest store that is filled again for each round. One round would
// change its size noticeably.
const smallStore = 10_000

// settleTime is the pause between the start of a server and its measurement.
const settleTime = time.Second

func (b *bench) fillGrowth(presets int) (store, error) {
	folder := filepath.Join(b.folder, fmt.Sprintf("store-%d-%d", presets, b.serial.Add(1)))
	return fill(b.ctx, folder, 1000, presets)
}

func (b *bench) measureStock(like *stock) error {
	s, err := b.startStock(like.bytes)
	if err != nil {
		return err
	}
	defer s.stop()
	time.Sleep(settleTime)
	if err := b.recordStart(s.server, 0); err != nil {
		return err
	}
	for _, r := range []*request{s.get(), s.infer()} {
		if _, err := b.sample(b.clients, b.lasting/2, trial{open: r.connect}); err != nil {
			return err
		}
	}
	return b.recordMemory(s.server, loadedFigure, residentFigure, 0)
}

func (b *bench) measureOurs(s store) error {
	ours, err := b.startOurs(s)
	if err != nil {
		return err
	}
	defer ours.stop()
	time.Sleep(settleTime)
	if err := b.recordStart(ours.server, s.presets); err != nil {
		return err
	}
	if err := ours.check(); err != nil {
		return err
	}
	newVersion, err := ours.newVersions(newVersionWork, b.clients, writeClientSlug)
	if err != nil {
		return err
	}
	for _, t := range []trial{
		{work: getWork, open: ours.getWorkspace().connect},
		{work: passWork, open: ours.passThrough().connect},
		{work: resolveWork, open: ours.inferWith(min(hotPresets, s.presets)).connect},
		{work: resolveAnyWork, open: ours.inferWith(s.presets).connect},
		ours.newWorkspaces(),
		ours.newPresets(),
		newVersion,
	} {
		load := result.Load{Group: growth, Work: t.work, Connections: b.clients, Presets: s.presets}
		if err := b.measure(load, b.lasting/2, t); err != nil {
			return err
		}
	}
	return b.recordMemory(ours.server, loadedFigure, residentFigure, s.presets)
}

// recordStart records how long a server took to start, and its memory after that.
func (b *bench) recordStart(s *server, presets int) error {
	b.record(figureOf(startFigure, presets), "ms", float64(s.took.Microseconds())/1000)
	return b.recordMemory(s, idleFigure, idleResidentFigure, presets)
}

// recordMemory records a server's memory: its own, and all that is resident.
func (b *bench) recordMemory(s *server, own, resident string, presets int) error {
	if err := b.recordStatus(s, own, "RssAnon", presets); err != nil {
		return err
	}
	return b.recordStatus(s, resident, "VmRSS", presets)
}

func (b *bench) recordStatus(s *server, figure, field string, presets int) error {
	if runtime.GOOS != "linux" {
		return nil // there is no /proc
	}
	size, err := s.memory(field)
	b.record(figureOf(figure, presets), "MiB", size)
	return err
}
