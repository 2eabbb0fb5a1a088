package trace

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// Subsystem is the part of the program that an event comes from.
type Subsystem uint8

// The subsystems, from the first step of bring-up to the user's prompt.
const (
	Bootstrap  Subsystem = iota // TCP exchange, server list, control connections
	Verbs                       // devices, queue pairs, memory regions
	Wire                        // packets sent, received, dropped, sent again
	Ring                        // steps of bring-up, neighbours, liveness
	Collective                  // operations, protocols, phases
	Repl                        // commands and scripts

	subsystems = iota
)

var subsystemNames = [subsystems]string{"bootstrap", "verbs", "wire", "ring", "collective", "repl"}

// String returns the name that Set and RINGCLI_DEBUG take.
func (s Subsystem) String() string {
	if int(s) >= subsystems {
		return "unknown"
	}
	return subsystemNames[s]
}

// levels holds a slog.Level for each subsystem. They are adjacent on purpose:
// they are read all the time and written almost never, so sharing a cache
// line costs nothing.
var levels [subsystems]atomic.Int32

// Enabled tells whether the subsystem's debug events are on. It is one atomic
// load, inlined.
func Enabled(s Subsystem) bool {
	return prints && levels[s].Load() <= int32(slog.LevelDebug)
}

// EnabledAt tells whether the subsystem's events of the level are on.
func EnabledAt(s Subsystem, l slog.Level) bool {
	return prints && levels[s].Load() <= int32(l)
}

// Debug records what happens step by step. On hot paths guard it with Enabled.
func Debug(s Subsystem, msg string, attrs ...slog.Attr) {
	if prints && EnabledAt(s, slog.LevelDebug) {
		emit(s, slog.LevelDebug, msg, attrs)
	}
}

// Info records what an operator wants to see of a healthy run.
func Info(s Subsystem, msg string, attrs ...slog.Attr) {
	if prints && EnabledAt(s, slog.LevelInfo) {
		emit(s, slog.LevelInfo, msg, attrs)
	}
}

// Warn records what the program got over, but an operator should know.
func Warn(s Subsystem, msg string, attrs ...slog.Attr) {
	if prints && EnabledAt(s, slog.LevelWarn) {
		emit(s, slog.LevelWarn, msg, attrs)
	}
}

// Error records a failure that no returned error reports.
func Error(s Subsystem, msg string, attrs ...slog.Attr) {
	if prints && EnabledAt(s, slog.LevelError) {
		emit(s, slog.LevelError, msg, attrs)
	}
}

// emit is the one door through which every event goes.
func emit(s Subsystem, l slog.Level, msg string, attrs []slog.Attr) {
	if recorderOn.Load() {
		recordLog(s, l, msg, attrs)
	}
	k := current.Load()
	r := slog.NewRecord(k.now(), l, msg, 0)
	r.AddAttrs(attrs...)
	// A trace that cannot be written must not fail what it traces.
	_ = k.handlers[s].Handle(context.Background(), r)
}
