// Command bench compares caddy-presets with what it stands in for and what it is
// made of: stock Caddy, raw Badger, raw etcd and, as a peer, PocketBase. All of them run on
// this machine and share its processors with the load generator, so that only
// ratios of one run mean anything elsewhere.
//
//	go -C bench run . [flags]
//
// builds and starts each of them as a process of its own on the loopback
// interface, checks that their answers are right, lets them take turns round by
// round, and prints a table in Markdown. The results also go to a file that
//
//	go -C bench run ./plot
//
// makes the plots from.
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

// options say what is measured and for how long.
type options struct {
	rounds int
	// lasting is how long each measurement takes, in each round. Those of the
	// plots take half as long.
	lasting time.Duration
	// clients is how many connections there are where one does not say.
	clients int
	// stored is how many workspaces and presets there are, at least.
	stored int
	// sizes are the numbers of presets, and sweep those of connections, that
	// the plots show.
	sizes, sweep []int
	// sweepRounds is rounds for sweep.
	sweepRounds int
	// only are the groups to measure.
	only       []string
	pocketBase bool
	out        string
}

func main() {
	log.SetFlags(0)
	if serve := role(); serve != nil {
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

// role returns what this program does when another one of it has started it to serve,
// or else nil.
func role() func() error {
	switch {
	case os.Getenv(upstreamEnv) != "":
		return serveUpstream
	case os.Getenv(putterEnv) != "":
		return servePutter
	default:
		return nil
	}
}

// parse reads the flags.
func parse(args []string) (options, error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	rounds := flags.Int("rounds", 5, "how often the candidates take turns")
	seconds := flags.Float64("seconds", 1, "how long each measurement takes in each round")
	only := flags.String("only", strings.Join(groupNames, ","), "the groups to measure, separated by commas")
	clients := flags.Int("connections", 64, "how many clients there are at the same time")
	maxPresets := flags.Int("max-presets", 1_000_000, "the largest number of stored presets, for growth")
	skip := flags.Bool("skip-pocketbase", false, "leave the peer out, which is to be downloaded")
	quick := flags.Bool("quick", false, "a look within two minutes: less of everything, and of no worth as a figure")
	out := flags.String("out", "results.json", "the file for the results")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	o := options{
		rounds: *rounds, lasting: time.Duration(*seconds * float64(time.Second)), clients: *clients,
		stored: 100_000, sweep: []int{1, 2, 4, 8, 16, 32, 64, 128, 256}, sweepRounds: min(*rounds, 3),
		pocketBase: !*skip, out: *out,
	}
	if *quick {
		o.rounds, o.lasting, o.stored = 2, 250*time.Millisecond, 5_000
		o.sweep, o.sweepRounds = []int{1, 16, 256}, 1
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
