package trace

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
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
