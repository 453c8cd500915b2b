package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddy-presets/caddy-presets/bench/result"
)

// bench is one run of the comparison.
type bench struct {
	options
	ctx    context.Context
	folder string // temporary
	// presets and stock are binaries, upstream is the address of the gateway.
	presets, stock, upstream string
	etcd                     string        // the server's version, after its build
	peerVersions             []string      // of the group gateways
	servers                  []*server     // all started servers
	serial                   atomic.Uint64 // makes unique slugs
	result                   result.Run
}

// compare runs the measurements of o, writes the tables to out and the results to a file.
// It leaves nothing else behind.
func compare(ctx context.Context, o options, out io.Writer) error {
	folder, err := os.MkdirTemp("", "presets-bench-")
	if err != nil {
		return err
	}
	b := &bench{options: o, ctx: ctx, folder: folder}
	defer func() {
		for _, s := range slices.Backward(b.servers) {
			s.stop()
		}
		_ = os.RemoveAll(folder)
	}()
	if err := b.run(); err != nil {
		return err
	}
	if err := b.describe(); err != nil {
		return err
	}
	b.judge()
	if err := b.result.Write(o.out); err != nil {
		return err
	}
	return report(out, &b.result)
}

// run measures all selected groups.
func (b *bench) run() (err error) {
	log.Print("building")
	if b.presets, err = b.build(mainModule, "./cmd/caddy", "presets"); err != nil {
		return err
	}
	if b.stock, err = b.build(mainModule, "github.com/caddyserver/caddy/v2/cmd/caddy", "stock"); err != nil {
		return err
	}
	if err := b.startUpstream(); err != nil {
		return err
	}
	log.Printf("storing %d workspaces and presets", b.stored)
	// Store one more page, so that the last offset returns a full page.
	filled, err := fill(b.ctx, filepath.Join(b.folder, "store"), b.stored+pageSize, b.stored+pageSize)
	if err != nil {
		return err
	}
	ours, err := b.startOurs(filled)
	if err != nil {
		return err
	}
	answer, err := ours.workspace()
	if err != nil {
		return err
	}
	stock, err := b.startStock(answer)
	if err != nil {
		return err
	}
	if err := errors.Join(ours.check(), stock.check()); err != nil {
		return err
	}
	for _, group := range b.only {
		if err := b.measureGroup(group, ours, stock); err != nil {
			return fmt.Errorf("%s: %w", group, err)
		}
	}
	return nil
}

// describe records the machine and the compared versions in the results.
func (b *bench) describe() error {
	b.result.Date = time.Now().UTC().Format(time.DateOnly)
	b.result.Command = strings.Join(append([]string{"go -C bench run ."}, os.Args[1:]...), " ")
	b.result.Machine = fmt.Sprintf("%d processors (%s), %s", runtime.NumCPU(), processor(), runtime.GOOS)
	b.result.Versions = []string{runtime.Version()}
	listed := map[string][]string{mainModule: {"github.com/caddyserver/caddy/v2", "github.com/dgraph-io/badger/v4"}}
	if b.pocketBase && slices.Contains(b.only, peer) {
		listed[pocketBaseModule] = []string{"github.com/pocketbase/pocketbase", "modernc.org/sqlite"}
	}
	if slices.Contains(b.only, etcdEngine) {
		listed[etcdModule] = []string{"go.etcd.io/etcd/client/v3"}
		b.result.Versions = append(b.result.Versions, b.etcd)
	}
	for _, module := range []string{mainModule, etcdModule, pocketBaseModule} {
		for _, dependency := range listed[module] {
			out, err := exec.CommandContext(b.ctx, "go", "-C", module, "list", "-m", dependency).Output() //nolint:gosec // named above
			if err != nil {
				return fmt.Errorf("finding the version of %s: %w", dependency, err)
			}
			b.result.Versions = append(b.result.Versions, strings.TrimSpace(string(out)))
		}
	}
	b.result.Versions = append(b.result.Versions, b.peerVersions...)
	return nil
}

// processor returns the name of the machine's processors.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.Trim(name, "\t :\n")
		}
	}
	return runtime.GOARCH
}

// trial is work to measure.
type trial struct {
	work string
	open connect
	// inProcess tells that this process does the work itself.
	inProcess bool
	// shared tells that the servers do other work, too. Their processor time tells nothing.
	shared bool
	// begin prepares a measurement, and end cleans up after it. Either may be nil.
	begin func() (end func() error, err error)
	// stored counts objects. Each run of the work adds one object. stored is nil if the
	// work adds none.
	stored func() (int, error)
}

// step is a list of trials with the same number of clients.
type step struct {
	clients int
	trials  []trial
}

// takeTurns measures all trials in each round, one after another.
func (b *bench) takeTurns(group string, rounds int, lasting time.Duration, steps ...step) error {
	for round := range rounds {
		log.Printf("%s: round %d of %d", group, round+1, rounds)
		for _, s := range steps {
			for _, t := range s.trials {
				if err := b.measure(result.Load{Group: group, Work: t.work, Connections: s.clients}, lasting, t); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// measure adds a sample. It fails unless the number of stored objects equals the
// acknowledged ones.
func (b *bench) measure(l result.Load, lasting time.Duration, t trial) error {
	sample, err := b.sample(l.Connections, lasting, t)
	if err != nil {
		return fmt.Errorf("%s, %d connections: %w", t.work, l.Connections, err)
	}
	b.result.Add(l, sample)
	return nil
}

func (b *bench) sample(clients int, lasting time.Duration, t trial) (sample result.Sample, err error) {
	b.settle()
	if t.begin != nil {
		end, err := t.begin()
		if err != nil {
			return result.Sample{}, err
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	before, err := t.count()
	if err != nil {
		return result.Sample{}, err
	}
	if !t.inProcess {
		// The clients use half of the processors, so that the servers have the others.
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(1, runtime.NumCPU()/2)))
	}
	used := b.cpuTime()
	sample, done, err := drive(b.ctx, clients, lasting/5, lasting, t.open)
	if err != nil {
		return result.Sample{}, err
	}
	if !t.inProcess && !t.shared {
		sample.CPU = (b.cpuTime() - used) / time.Duration(done)
	}
	after, err := t.count()
	if err == nil && t.stored != nil && after-before != done {
		err = fmt.Errorf("%d were acknowledged, and %d are stored", done, after-before)
	}
	return sample, err
}

// settle waits until the servers have finished background work, such as compactions. It
// gives up after a while, because some work never ends on a slow machine.
func (b *bench) settle() {
	for until := time.Now().Add(grace / 5); time.Now().Before(until); {
		before := b.cpuTime()
		time.Sleep(200 * time.Millisecond)
		if b.cpuTime()-before <= 20*time.Millisecond {
			return
		}
	}
}

// cpuTime returns the processor time of all servers, without the upstream. Servers that
// get no requests use almost none.
func (b *bench) cpuTime() (sum time.Duration) {
	for _, s := range b.servers {
		if s.log != "" && !s.hasEnded() {
			sum += s.cpuTime()
		}
	}
	return sum
}

func (t trial) count() (int, error) {
	if t.stored == nil {
		return 0, nil
	}
	return t.stored()
}
