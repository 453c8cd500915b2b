// Command bench compares caddy-presets with stock Caddy, raw Badger, raw etcd, PocketBase
// and other gateways. All of them share the processors of this machine with the load
// generator. So only ratios of one run can be compared with those of other machines.
//
//	go -C bench run . [flags]
//
// builds each server and starts it as a process on the loopback interface. It checks
// their answers, measures them in alternation, and prints a table in Markdown. It also
// writes the results to a file. From that file
//
//	go -C bench run ./plot
//
// draws the plots.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options select the measurements and their duration.
type options struct {
	rounds int
	// lasting is the duration of each measurement in each round. Measurements for the
	// plots take half of it.
	lasting time.Duration
	// clients is the default number of connections.
	clients int
	// stored is the least number of stored workspaces, and of presets.
	stored int
	// sizes are the numbers of presets in the plots. sweep are the numbers of connections
	// there.
	sizes, sweep []int
	// usedDays is how many days of usage are stored.
	usedDays int
	// sweepRounds is the number of rounds for sweep.
	sweepRounds int
	// only are the groups to measure.
	only         []string
	pocketBase   bool
	skipGateways bool
	out          string
}

func main() {
	log.SetFlags(0)
	if serve := childRole(); serve != nil {
		if err := serve(); err != nil {
			log.Fatal(err)
		}
		return
	}
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := compare(ctx, o, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// childRole returns the work of this process if bench itself started it as a server.
// Otherwise it returns nil.
func childRole() func() error {
	switch {
	case os.Getenv(upstreamEnv) != "":
		return serveUpstream
	case os.Getenv(bareEnv) != "":
		listen, upstream, _ := strings.Cut(os.Getenv(bareEnv), ",")
		return func() error { return serveBare(listen, upstream) }
	case os.Getenv(putterEnv) != "":
		return servePutter
	default:
		return nil
	}
}

// parse reads the flags.
func parse(args []string) (options, error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	rounds := flags.Int("rounds", 5, "rounds in which each program is measured")
	seconds := flags.Float64("seconds", 1, "duration of a measurement in each round")
	only := flags.String("only", strings.Join(groupNames, ","), "the groups to measure, separated by commas")
	clients := flags.Int("connections", 64, "number of concurrent clients")
	maxPresets := flags.Int("max-presets", 1_000_000, "the largest number of stored presets, for growth")
	skip := flags.Bool("skip-pocketbase", false, "do not download and measure PocketBase")
	skipGateways := flags.Bool("skip-gateways", false, "do not download and measure Portkey's gateway, Bifrost's core and LiteLLM's proxy")
	quick := flags.Bool("quick", false, "a short run of two minutes, whose figures are not meaningful")
	out := flags.String("out", "results.json", "the file for the results")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	o := options{
		rounds: *rounds, lasting: time.Duration(*seconds * float64(time.Second)), clients: *clients,
		usedDays: usedDays, stored: 100_000, sweep: []int{1, 2, 4, 8, 16, 32, 64, 128, 256}, sweepRounds: min(*rounds, 3),
		pocketBase: !*skip, skipGateways: *skipGateways, out: *out,
	}
	if *quick {
		o.rounds, o.lasting, o.stored = 2, 250*time.Millisecond, 5_000
		o.sweep, o.sweepRounds, o.usedDays = []int{1, 16, 256}, 1, 40
		*maxPresets = min(*maxPresets, 10_000)
	}
	for n := 1000; n <= *maxPresets; n *= 10 {
		o.sizes = append(o.sizes, n)
	}
	o.only = strings.Split(*only, ",")
	for _, group := range o.only {
		if !slices.Contains(groupNames, group) {
			return o, fmt.Errorf("-only: %q is none of %s", group, strings.Join(groupNames, ", "))
		}
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.rounds < 1 || o.lasting <= 0 || o.clients < 1 || len(o.sizes) == 0:
		return o, errors.New("-rounds, -seconds and -connections must be positive, and -max-presets at least 1000")
	}
	return o, nil
}
