// Package faults runs the built server as a child process and does to it what
// happens to servers: kills, power cuts, full disks, damaged files, reloads under
// load, and to a cluster that its servers and etcd are in, servers that stop and
// networks that are cut. What the server acknowledged is recorded outside of it and compared
// with what it says afterwards.
//
// The short form of all runs is part of the second tier:
//
//	go -C faults test -tags faults -count=1 -v ./...
//
// PRESETS_FAULTS=long makes it the long one, of hours. Each run ends with one
// line of figures that begins with RESULT. A run that lacks a tool or a right is
// skipped and says so; with PRESETS_E2E=required, as .ci/run sets it, it fails.
package faults
