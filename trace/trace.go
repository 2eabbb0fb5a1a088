package trace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"sync/atomic"
)

// EnvVar names the environment variable that sets the levels at start.
const EnvVar = "RINGCLI_DEBUG"

// off is above every level that an event can have.
const off = slog.Level(math.MaxInt32)

// ErrSpec is wrapped by every error of Set.
var ErrSpec = errors.New("trace: bad level spec")

// ErrNoPrints is what Set returns from a program that was built with the tag
// notrace, if a level other than off is asked for.
var ErrNoPrints = errors.New("trace: this program was built without printed events (build tag notrace): levels stay off; the flight recorder works: trace dump")

const knownLevels = "debug, info, warn, error, off (1 is debug, 0 is off)"

var levelsByName = map[string]slog.Level{
	"debug": slog.LevelDebug, "1": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "warning": slog.LevelWarn,
	"error": slog.LevelError, "off": off, "0": off,
}

func init() {
	level := off
	if prints {
		level = slog.LevelWarn
	}
	for s := range levels {
		levels[s].Store(int32(level))
	}
	if spec := os.Getenv(EnvVar); spec != "" {
		_ = Set(spec) // the command line reads it too, and reports what is wrong
	}
}

// Set changes levels while the program runs. The spec is a level for all
// subsystems ("debug", "off", "1", "0"), or a comma-separated list of
// subsystem=level ("wire=debug,ring=info"), where "all" stands for every
// subsystem and later parts override earlier ones; subsystems that are not
// named keep their level. After an error nothing has changed. Built with the
// tag notrace, it can only set off.
func Set(spec string) error {
	var next [subsystems]*slog.Level
	for part := range strings.SplitSeq(spec, ",") {
		name, value, named := strings.Cut(part, "=")
		if !named {
			name, value = "all", part
		}
		level, err := parseLevel(value)
		var first, last Subsystem
		if err == nil {
			first, last, err = parseSubsystem(name)
		}
		if err != nil {
			return fmt.Errorf("%w %q: %w", ErrSpec, spec, err)
		}
		for s := first; s <= last; s++ {
			next[s] = &level
		}
	}
	for _, level := range next {
		if !prints && level != nil && *level != off {
			return ErrNoPrints
		}
	}
	for s, level := range next {
		if level != nil {
			levels[s].Store(int32(*level))
		}
	}
	return nil
}

func parseLevel(text string) (slog.Level, error) {
	name := strings.ToLower(strings.TrimSpace(text))
	if level, ok := levelsByName[name]; ok {
		return level, nil
	}
	if name == "" {
		return 0, fmt.Errorf("no level given, known are %s", knownLevels)
	}
	if _, _, err := parseSubsystem(name); err == nil {
		return 0, fmt.Errorf("subsystem %s needs a level, as in %s=debug", name, name)
	}
	return 0, fmt.Errorf("unknown level %q, known are %s", strings.TrimSpace(text), knownLevels)
}

// parseSubsystem returns the first and the last subsystem that the name means.
func parseSubsystem(text string) (first, last Subsystem, err error) {
	name := strings.ToLower(strings.TrimSpace(text))
	if name == "all" {
		return 0, subsystems - 1, nil
	}
	if s := slices.Index(subsystemNames[:], name); s >= 0 {
		return Subsystem(s), Subsystem(s), nil
	}
	return 0, 0, fmt.Errorf("unknown subsystem %q, known are %s, all",
		strings.TrimSpace(text), strings.Join(subsystemNames[:], ", "))
}

// SubsystemLevel is the level in force for one subsystem.
type SubsystemLevel struct {
	Subsystem Subsystem
	Level     string // debug, info, warn, error or off
}

// Levels returns the level of every subsystem, in the order of the constants.
func Levels() []SubsystemLevel {
	list := make([]SubsystemLevel, subsystems)
	for s := range levels {
		list[s] = SubsystemLevel{Subsystem(s), levelName(slog.Level(levels[s].Load()))}
	}
	return list
}

func levelName(l slog.Level) string {
	if l == off {
		return "off"
	}
	return strings.ToLower(l.String())
}

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
