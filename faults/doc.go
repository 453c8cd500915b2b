// Package faults runs the built server as a child process under load and injects faults. They
// are kills, power cuts, full disks, damaged files and reloads. In a cluster of servers
// and etcd members it stops processes and cuts networks. The tests record all
// acknowledged writes, and compare them with the server's later answers.
//
// The short form of all runs is part of the second tier:
//
//	go -C faults test -tags faults -count=1 -v ./...
//
// PRESETS_FAULTS=long selects the long form, which takes hours. Each run ends with one
// line of figures that begins with RESULT. A run without its tool or its rights is
// skipped and gives the reason. With PRESETS_E2E=required, as in .ci/run, it fails.
package faults
