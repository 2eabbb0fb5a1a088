package links

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/ring/diagnose/links"
)

// fileFlags name the files that rank 0 writes.
var fileFlags = []string{"html", "good", "bad"}

func checkFiles(call command.Call) error {
	known := map[string]string{}
	for _, flag := range fileFlags {
		path := command.TextOf(call.Flags, flag)
		switch {
		case path == "" && call.Flags.Changed(flag):
			return exit.Usagef("links: --%s \"\": expected a file; is a variable not set?", flag)
		case path == "":
			continue
		}
		at, err := filepath.Abs(path)
		if err != nil {
			return exit.Usagef("links: --%s %s: %w", flag, path, err)
		}
		if other := known[at]; other != "" {
			return exit.Usagef("links: --%s and --%s both name %s: expected a file for each", other, flag, path)
		}
		known[at] = flag
		if err := render.CheckReplaceable("--"+flag, path); err != nil {
			return err
		}
	}
	return nil
}

// files are those that are written at the end, each whole or not at all; none but on rank 0.
type files struct {
	byFlag map[string]*render.File
}

// openFiles makes sure that they can be written, before anything is measured for them.
func openFiles(ctx context.Context, m *session.Member, call command.Call) (*files, error) {
	f := &files{byFlag: map[string]*render.File{}}
	var err error
	if m.Ring.Rank() == 0 {
		err = checkFiles(call)
		for _, flag := range fileFlags {
			if path := command.TextOf(call.Flags, flag); path != "" && err == nil {
				if f.byFlag[flag], err = render.CreateFile(path); err != nil {
					err = exit.Usagef("--%s %s: %w: expected a file in a folder that can be written", flag, path, err)
				}
			}
		}
	}
	if err := m.Agree(ctx, err); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func (f *files) close() error {
	var errs []error
	for _, file := range f.byFlag {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}

// write writes them.
func (f *files) write(c *report, v *links.Verdict, found []LinkFinding, sum LinksVerdict) error {
	good, bad := c.lists(v)
	writers := map[string]func(io.Writer) error{
		"good": hostList(good), "bad": hostList(bad),
		"html": func(w io.Writer) error { return c.page(w, found, sum) },
	}
	for _, flag := range fileFlags {
		if file := f.byFlag[flag]; file != nil {
			if err := file.Put(writers[flag]); err != nil {
				return fmt.Errorf("write --%s %s: %w", flag, file.Path, err)
			}
		}
	}
	return nil
}

func hostList(hosts []string) func(io.Writer) error {
	return func(w io.Writer) error {
		for _, h := range hosts {
			if _, err := fmt.Fprintln(w, h); err != nil {
				return err
			}
		}
		return nil
	}
}

// lists are the hosts that nothing was found about, and those that were named. A pair is two
// hosts of which one may be well, and is in neither; groups are a matter of the network.
func (c *report) lists(v *links.Verdict) (good, bad []string) {
	touched := map[string]bool{}
	for i := range v.Findings {
		f := &v.Findings[i]
		if f.Place == links.Group {
			continue
		}
		for _, host := range c.hostsOf(slices.Concat(f.From, f.To)) {
			touched[host] = true
			if f.Place != links.OnePair && !slices.Contains(bad, host) {
				bad = append(bad, host)
			}
		}
	}
	for _, host := range c.hosts {
		if !touched[host] && !slices.Contains(good, host) {
			good = append(good, host)
		}
	}
	return good, bad
}
