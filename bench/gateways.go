package main

import (
	"bytes"
	"fmt"
	"log"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/caddy-presets/caddy-presets/bench/result"
	"github.com/caddy-presets/caddy-presets/domain"
)

// The gateways that the group gateways measures.
const (
	noGateway      = "no gateway"
	stockGateway   = proxyWork
	oursGateway    = "caddy-presets"
	bareGateway    = "bare Go proxy"
	portkeyGateway = "Portkey's gateway"
	bifrostGateway = "Bifrost's core"
	liteLLMGateway = "LiteLLM's proxy"
)

// peers are the gateways that package registries have.
var peers = []string{portkeyGateway, bifrostGateway, liteLLMGateway}

// chatLoad is work that each gateway does.
type chatLoad struct {
	name string
	// size is that of the request in bytes, before the stored configuration is applied.
	size   int
	stream bool
	// packed requests are gzip. Only caddy-presets and the bare proxy get them.
	packed bool
	// rate and cpu are the goals compared with stock Caddy, for packed requests with the bare proxy. 0 is none.
	rate, cpu float64
}

// chatClients is the number of connections.
const chatClients = 16

var chatLoads = []chatLoad{
	{name: "chat of 2 KB", size: 2 << 10, rate: 0.95, cpu: 1.12},
	{name: "chat of 64 KB", size: 64 << 10, rate: 0.95, cpu: 1.12},
	{name: "chat of 256 KB", size: 256 << 10, rate: 0.93, cpu: 1.20},
	{name: "chat of 1 MB", size: 1 << 20, rate: 0.90, cpu: 1.30},
	{name: "chat of 1 MB in gzip", size: 1 << 20, packed: true, rate: 0.90},
	{name: "stream of 200 events", size: 2 << 10, stream: true, rate: 0.95},
}

// work names what a gateway does under the load.
func (l chatLoad) work(gateway string) string { return l.name + ", " + gateway }

// Figures of a gateway's memory after a load. The peak is since its start.
func residentUnder(work string) string { return "resident memory under load: " + work }
func peakUnder(work string) string     { return "peak of resident memory: " + work }

// gatewayCase is a gateway of the comparison.
type gatewayCase struct {
	name string
	// start starts the gateway, and returns its request for a load. The server is nil
	// for noGateway.
	start func(l chatLoad) (*server, *request, error)
	// received returns the request that must reach the upstream, from its body at the
	// gateway. It is nil if the two are equal.
	received func(body string) string
	// unpacks tells that it takes part in packed loads.
	unpacks bool
}

// chatPresets is the number of stored presets. Requests name hotPresets of them in turn.
const chatPresets = 1000

// measureGateways measures chat requests through each gateway. Each measurement has a new
// process, so that its memory is that of one load.
func (b *bench) measureGateways(like *stock) error {
	filled, err := fillWith(b.ctx, filepath.Join(b.folder, "store-gateways"), 1, chatPresets, domain.Capture{
		Dialect: domain.Chat, SystemPrompt: &prompt, Config: []byte(`{"model":"` + chatModel + `",` + chatSettings + `}`),
	})
	if err != nil {
		return err
	}
	cases, err := b.gatewayCases(like, filled)
	if err != nil {
		return err
	}
	for round := range b.rounds {
		log.Printf("%s: round %d of %d", gateways, round+1, b.rounds)
		for _, l := range chatLoads {
			for _, c := range cases {
				if l.packed && !c.unpacks || l.stream && c.name == bareGateway {
					continue // it is there to compare bodies
				}
				switch err := b.measureGatewayCase(c, l); {
				case err != nil && slices.Contains(peers, c.name):
					b.skip(l.work(c.name), err)
				case err != nil:
					return fmt.Errorf("%s: %w", l.work(c.name), err)
				}
			}
		}
		if err := b.measureUploads(filled); err != nil {
			return fmt.Errorf("%s: %w", uploadFigure, err)
		}
	}
	return nil
}

// gatewayCases prepares all gateways. It leaves out those that cannot be installed.
func (b *bench) gatewayCases(like *stock, filled store) ([]gatewayCase, error) {
	cases := []gatewayCase{
		{name: noGateway, start: func(l chatLoad) (*server, *request, error) {
			return nil, chatRequest(b.upstream, "nobody", chatModel, l), nil
		}},
		b.bareCase(),
		{name: stockGateway, start: func(l chatLoad) (*server, *request, error) {
			s, err := b.startStock(like.bytes)
			if err != nil {
				return nil, nil, err
			}
			return s.server, chatRequest(s.proxy, "nobody", chatModel, l), nil
		}},
		{name: oursGateway, received: withStored, unpacks: true, start: func(l chatLoad) (*server, *request, error) {
			o, err := b.startOurs(filled)
			if err != nil {
				return nil, nil, err
			}
			r := chatRequest(o.address, o.inference, "@preset/"+variable, l)
			r.fill = takeEachInTurn(hotPresets, func(part []byte, i int) { writeSlug(part, storedSlug, uint64(i)) })
			return o.server, r, nil
		}},
	}
	if b.skipGateways {
		return cases, nil
	}
	for i, prepare := range []func() (gatewayCase, error){b.preparePortkey, b.prepareBifrost, b.prepareLiteLLM} {
		c, err := prepare()
		if err != nil {
			b.skip(peers[i], err)
			continue
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// skip reports that a gateway is not measured.
func (b *bench) skip(gateway string, err error) {
	log.Printf("SKIPPED: %s: %v", gateway, err)
	b.peerVersions = append(b.peerVersions, "without "+gateway)
}

// chatRequest returns the request of a load. Its answer must have the size of the upstream's.
func chatRequest(address, key, model string, l chatLoad) *request {
	r := newRequest(address, http.MethodPost, chatPath, key, chatBody(model, l.size, l.stream), http.StatusOK, nil)
	if !l.stream {
		r.size = len(chatAnswer)
	}
	return r
}

// measureGatewayCase starts a gateway, checks its answer, and measures it when it is warm.
func (b *bench) measureGatewayCase(c gatewayCase, l chatLoad) error {
	s, r, err := c.start(l)
	if err != nil {
		return err
	}
	if s != nil {
		defer s.stop()
	}
	_, sent, _ := bytes.Cut(r.text, headEnd)
	want := string(sent)
	if l.packed {
		r.pack()
	}
	if c.received != nil {
		want = c.received(want)
	}
	if err := checkChat(b.upstream, r, l.stream, want); err != nil {
		return err
	}
	var firsts firstEventTimes
	open := func() connect {
		if l.stream {
			return firsts.of(r)
		}
		return r.connect
	}
	if _, err := b.sample(chatClients, 2*b.lasting, trial{open: open()}); err != nil { // compilers and pools warm up
		return err
	}
	work := l.work(c.name)
	if err := b.measure(result.Load{Group: gateways, Work: work, Connections: chatClients}, b.lasting, trial{work: work, open: open()}); err != nil {
		return err
	}
	if l.stream {
		b.record(firstEventFigure(work), "µs", float64(firsts.median().Nanoseconds())/1e3)
	}
	if s == nil || runtime.GOOS != "linux" {
		return nil // there is no /proc
	}
	resident, err := s.memory("VmRSS")
	if err != nil {
		return err
	}
	peak, err := s.memory("VmHWM")
	b.record(residentUnder(work), "MiB", resident)
	b.record(peakUnder(work), "MiB", peak)
	return err
}

// firstEventTimes collects the times to the first event of all clients.
type firstEventTimes struct {
	mu      sync.Mutex
	clients []*streamConnection
}

// of returns a connect that collects, and forgets earlier clients.
func (f *firstEventTimes) of(r *request) connect {
	f.clients = nil
	return func(client int) (session, error) {
		s, err := r.connectStream(client)
		if err != nil {
			return nil, err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.clients = append(f.clients, s.(*streamConnection))
		return s, nil
	}
}

func (f *firstEventTimes) median() time.Duration {
	var all histogram
	for _, c := range f.clients {
		all.add(&c.toFirst)
	}
	return all.quantile(0.5)
}

// judgeGateways adds the rows of the group gateways.
func (b *bench) judgeGateways(j judge) {
	for _, l := range chatLoads {
		each := func(gateway string, f result.Figure) []float64 {
			return j.figure(gateways, l.work(gateway), chatClients, f)
		}
		first := func(gateway string) []float64 { return b.recorded(firstEventFigure(l.work(gateway))) }
		peak := func(gateway string) []float64 { return b.recorded(peakUnder(l.work(gateway))) }
		name := fmt.Sprintf("%s with a preset, %d connections", l.name, chatClients)
		if l.packed {
			j.row(name+": rate, to a bare Go proxy that unpacks", "×", atLeast(l.rate), ratio(each(oursGateway, result.PerSecond), each(bareGateway, result.PerSecond)))
			continue
		}

		if rounds := each(stockGateway, result.PerSecond); len(rounds) > 1 {
			j.noise(name+": rate of stock `reverse_proxy`, to its rate a round before", "×", ratio(rounds[1:], rounds[:len(rounds)-1]))
		}
		j.row(name+": rate, to stock `reverse_proxy`", "×", atLeast(l.rate), ratio(each(oursGateway, result.PerSecond), each(stockGateway, result.PerSecond)))
		if l.cpu > 0 {
			j.row("… processor time, to stock `reverse_proxy`", "×", atMost(l.cpu), ratio(each(oursGateway, result.CPU), each(stockGateway, result.CPU)))
		}
		if l.stream {
			j.row("… time to the first event, beyond stock `reverse_proxy`", "µs", atMost(50), difference(first(oursGateway), first(stockGateway)))
		}
		if l.size == 1<<20 {
			j.row("… peak of resident memory, to stock `reverse_proxy`", "×", atMost(1.3), ratio(peak(oursGateway), peak(stockGateway)))
		}
		for _, peer := range peers {
			j.row("… rate, to "+peer, "×", atLeast(1), ratio(each(oursGateway, result.PerSecond), each(peer, result.PerSecond)))
			j.row("… p99, to "+peer, "×", atMost(1), ratio(each(oursGateway, result.P99), each(peer, result.P99)))
			j.row("… processor time, to "+peer, "×", atMost(1), ratio(each(oursGateway, result.CPU), each(peer, result.CPU)))
			if l.stream {
				j.row("… time to the first event, to "+peer, "×", atMost(1), ratio(first(oursGateway), first(peer)))
			}
			j.row("… peak of resident memory, to "+peer, "×", atMost(1), ratio(peak(oursGateway), peak(peer)))
		}
	}
	j.row(uploadFigure, "MiB", atMost(bodiesMemory+64), b.recorded(uploadFigure))
}
