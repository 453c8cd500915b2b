package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-presets/caddy-presets/bench/result"
)

// busyWriters is the number of clients that write while others read.
const busyWriters = 16

// besideWriters names work that is done while clients write.
func besideWriters(work string) string {
	return fmt.Sprintf("%s, beside %d writers", work, busyWriters)
}

// measureBusy measures one client that reads, alone and beside writers. Most of what it reads
// is not in memory. Stock Caddy has no store. So its time beside the same writers tells how
// long a request waits for a processor.
func (b *bench) measureBusy(ours *ours, stock *stock) error {
	var trials []trial
	for _, read := range []trial{
		{work: getWork, open: ours.getWorkspace().connect},
		{work: resolveAnyWork, open: ours.inferWith(ours.presets).connect},
		{work: respondWork, open: stock.get().connect},
	} {
		beside := read
		beside.work, beside.begin, beside.shared = besideWriters(read.work), b.beside(ours.newPresets()), true
		trials = append(trials, read, beside)
	}
	return b.takeTurns(busy, b.rounds, b.lasting, step{1, trials})
}

// beside returns a function that makes busyWriters clients do other work until its end.
func (b *bench) beside(other trial) func() (end func() error, err error) {
	return func() (func() error, error) {
		ctx, stop := context.WithCancel(b.ctx)
		ended := make(chan error, 1)
		go func() {
			_, _, err := drive(ctx, busyWriters, 0, time.Hour, other.open)
			ended <- err
		}()
		return func() error {
			stop()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				return fmt.Errorf("the writers: %w", err)
			}
			return b.ctx.Err()
		}, nil
	}
}

// judgeBusy compares reads beside writers with those without.
func (b *bench) judgeBusy(j judge) {
	p99 := func(work string) []float64 {
		return ratio(j.figure(busy, besideWriters(work), 1, result.P99), j.figure(busy, work, 1, result.P99))
	}
	goal := atMost(2)
	j.row(fmt.Sprintf("GET of one of %s workspaces, beside %d writers, p99 to that without, 1 connection", groupDigits(b.stored), busyWriters), "×", goal, p99(getWork))
	j.row("… inference request with one of all presets", "×", goal, p99(resolveAnyWork))
	j.noise("… `respond` of stock Caddy, which has no store", "×", p99(respondWork))
}
