package configs

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

type device struct {
	Port     int   `setting:"port"`
	SL       uint8 `setting:"sl"`
	GIDIndex *int  `setting:"gid-index"`
}

type options struct {
	device
	Timeout  time.Duration `setting:"timeout"`
	Retries  *int          `setting:"retry-cnt"`
	SlotSize int           `setting:"slot-size"`
	Device   string        `setting:"device"`
	Other    int
}

func TestFill(t *testing.T) {
	isolate(t)
	c, err := Load(parsed(t, "--sl=3", "--retry-cnt=0", "--slot-size=4K", "--timeout=5s"), "")
	if err != nil {
		t.Fatal(err)
	}
	o := options{Other: 7, Device: "soft:lo"}
	o.GIDIndex = new(4)
	c.Fill(&o)
	if o.Port != 1 || o.SL != 3 || o.GIDIndex != nil || *o.Retries != 0 || o.SlotSize != 4096 || o.Timeout != 5*time.Second || o.Device != "auto" || o.Other != 7 {
		t.Errorf("filled as %+v", o)
	}
}

func TestComplete(t *testing.T) {
	o := options{Retries: new(0), SlotSize: 512, device: device{SL: 2, GIDIndex: new(0)}}
	if err := Complete(&o); err != nil {
		t.Fatal(err)
	}
	if o.Port != 1 || o.SL != 2 || *o.GIDIndex != 0 || *o.Retries != 0 || o.SlotSize != 512 || o.Timeout != 30*time.Second || o.Device != "auto" {
		t.Errorf("completed as %+v", o)
	}
	o = options{}
	if err := Complete(&o); err != nil || *o.Retries != 6 || o.GIDIndex != nil || o.SlotSize != 256<<10 {
		t.Errorf("completed as %+v, %v", o, err)
	}
	for want, o := range map[string]options{
		"retry-cnt is 8, expected a whole number from 0 to 7": {Retries: new(8)},
		"sl is 16":                              {device: device{SL: 16}},
		"slot-size is -1, expected a size from": {SlotSize: -1},
		"timeout is -1ns":                       {Timeout: -1},
		"gid-index is 256":                      {device: device{GIDIndex: new(256)}},
	} {
		if err := Complete(&o); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestNamesOf(t *testing.T) {
	if got, want := NamesOf(options{}), []string{"timeout", "device", "port", "gid-index", "sl", "retry-cnt", "slot-size"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
