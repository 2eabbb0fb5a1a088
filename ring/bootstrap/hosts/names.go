package hosts

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/trace"
	"ringcli/verbs/route"
)

const (
	// lookupsAtOnce bounds the names that are asked for at the same time: more is a flood for a
	// name server.
	lookupsAtOnce = 16
	// lookupPauseMin and lookupPauseMax bound the pause between two rounds of lookups: short
	// enough that a new name is found soon, long enough that a thousand ranks do not load the
	// name server.
	lookupPauseMin, lookupPauseMax = 100 * time.Millisecond, 2 * time.Second
	// unansweredAfter is how long a name server may take before users are told.
	unansweredAfter = time.Second
	// getentLimit is how long getent may take for a name.
	getentLimit = 5 * time.Second
)

// Answer is what the lookup of a name came to: addresses, or an error.
type Answer struct {
	Addrs []netip.Addr // the one to try first is the first
	Err   error
	Took  time.Duration
}

// LookupFunc asks once for the addresses of a host.
type LookupFunc func(ctx context.Context, host string) ([]netip.Addr, error)

// Await asks for the addresses of hosts until each has one or ctx ends: a name may get its
// address later, as that of a pod does. It warns at once of what it waits for. Each round that leaves a
// host without an address, and a name server that does not answer for a second, calls waiting,
// from the caller's goroutine.
func Await(ctx context.Context, names []string, lookup LookupFunc, waiting func(map[string]Answer)) map[string]Answer {
	answers := make(map[string]Answer, len(names))
	var missing []string
	for _, host := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if a, err := netip.ParseAddr(host); err == nil {
			answers[host] = Answer{Addrs: []netip.Addr{a.Unmap()}}
		} else {
			missing = append(missing, host)
		}
	}
	if len(missing) == 0 {
		return answers
	}
	warned := 0
	wait := func() {
		if warned != len(missing) { // the texts of timeouts have another port each
			warned = len(missing)
			trace.Warn(trace.Bootstrap, "waiting for the address of "+waitingFor(ctx, missing, answers[missing[0]].Err))
		}
		waiting(answers)
	}
	for pause := lookupPauseMin; ; pause = min(2*pause, lookupPauseMax) {
		round := make(chan []Answer, 1)
		go func() { round <- lookUp(ctx, missing, lookup) }() // ctx ends it
		var found []Answer
		select {
		case found = <-round:
		case <-time.After(unansweredAfter):
			if ctx.Err() == nil {
				wait()
			}
			found = <-round
		}
		var left []string
		for i, host := range missing {
			if before, ok := answers[host]; ok && found[i].Err != nil && ctx.Err() != nil {
				found[i] = before // the last lookup had no time left
			}
			if answers[host] = found[i]; found[i].Err != nil {
				left = append(left, host)
			}
		}
		if missing = left; len(missing) == 0 || ctx.Err() != nil {
			return answers
		}
		wait()
		select {
		case <-ctx.Done():
			return answers
		case <-time.After(pause):
		}
	}
}

// waitingFor says which names have no address, for how long that is waited for, and why.
func waitingFor(ctx context.Context, missing []string, why error) string {
	text := strconv.Quote(missing[0])
	if more := len(missing) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if end, ok := ctx.Deadline(); ok {
		text += fmt.Sprintf(", at most %s", time.Until(end).Round(time.Second))
	}
	return fmt.Sprintf("%s: %v", text, cmp.Or(why, errUnanswered))
}

// lookUp asks once for each name.
func lookUp(ctx context.Context, names []string, lookup LookupFunc) []Answer {
	answers := make([]Answer, len(names))
	slots := make(chan struct{}, lookupsAtOnce)
	var lookups sync.WaitGroup
	for i, host := range names {
		slots <- struct{}{}
		lookups.Go(func() {
			defer func() { <-slots }()
			begun := time.Now()
			addrs, err := lookup(ctx, host)
			if err == nil && len(addrs) == 0 {
				err = errors.New("no address")
			}
			answers[i] = Answer{addrs, err, time.Since(begun)}
		})
	}
	lookups.Wait()
	return answers
}

// Lookup asks once for the addresses of a host, in the order in which a caller is to try them:
// first those to which this host has a route, and of these IPv4, from which most fabrics' RoCE
// GIDs are made. Go's resolver reads /etc/hosts and asks DNS. For what only a module of glibc's
// name service switch knows (myhostname, libvirt, ldap) it asks getent.
func Lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.Unmap()}, nil
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		asked := "/etc/hosts"
		if server, ok := errors.AsType[*net.DNSError](err); ok && server.Server != "" {
			asked += " and DNS"
		}
		modules := nssModules()
		if len(modules) == 0 {
			return nil, fmt.Errorf("%w (asked: %s)", err, asked)
		}
		var failed error
		if addrs, failed = getent(ctx, host); failed != nil {
			return nil, fmt.Errorf("%w (asked: %s; getent, for %s: %w)", err, asked, strings.Join(modules, ", "), failed)
		}
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	rank := func(a netip.Addr) (n int) {
		if _, err := route.Source(netip.AddrPortFrom(a, 9)); err != nil { // nothing is sent; 9 is discard (RFC 863)
			n += 2
		}
		if !a.Is4() {
			n++
		}
		return n
	}
	slices.SortStableFunc(addrs, func(a, b netip.Addr) int { return cmp.Compare(rank(a), rank(b)) })
	return slices.Compact(addrs), nil
}

// hostsLine is the line of nsswitch.conf(5) that says where names of hosts are looked up.
var hostsLine = regexp.MustCompile(`(?m)^\s*hosts:([^#\n]*)`)

// nssModules are the modules of glibc's name service switch for hosts beside those that Go's
// resolver stands for.
func nssModules() (names []string) {
	text, _ := os.ReadFile("/etc/nsswitch.conf") // or there are none
	if line := hostsLine.FindSubmatch(text); line != nil {
		for _, word := range strings.Fields(string(line[1])) {
			if word != "files" && word != "dns" && !strings.HasPrefix(word, "[") && !strings.HasSuffix(word, "]") {
				names = append(names, word)
			}
		}
	}
	return names
}

// getent asks glibc's name service switch (getent(1)).
func getent(ctx context.Context, host string) (addrs []netip.Addr, err error) {
	ctx, cancel := context.WithTimeout(ctx, getentLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, "getent", "ahosts", host).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 2 {
		return nil, errors.New("no such host")
	}
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(out) {
		if words := bytes.Fields(line); len(words) > 0 {
			if a, err := netip.ParseAddr(string(words[0])); err == nil && !slices.Contains(addrs, a) {
				addrs = append(addrs, a)
			}
		}
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("no address in %q", out)
	}
	return addrs, nil
}

// Joined is errors on one line; errors.Is and As find each.
func Joined(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	return &severalError{errs}
}

type severalError struct{ errs []error }

func (e *severalError) Error() string {
	var words []string
	for _, err := range e.errs {
		words = append(words, err.Error())
	}
	return strings.Join(words, "; ")
}

func (e *severalError) Unwrap() []error { return e.errs }

// Resolve returns the addresses of every entry of a list, the one to try first first. It asks
// for names without an address until ctx ends, and calls waiting meanwhile with what is known:
// no address of some entries.
func Resolve(ctx context.Context, nodes []Node, waiting func(known [][]netip.AddrPort)) ([][]netip.AddrPort, error) {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Host
	}
	begun := time.Now()
	answers := Await(ctx, names, Lookup, func(known map[string]Answer) {
		waiting(addressesOf(nodes, known))
	})
	if err := unresolved(nodes, answers); err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil, fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
		return nil, usage.Codedf(codes.HostUnknown, "%w; asked again for %s: correct the name, or give the address", err, time.Since(begun).Round(100*time.Millisecond))
	}
	return addressesOf(nodes, answers), nil
}

func addressesOf(nodes []Node, answers map[string]Answer) [][]netip.AddrPort {
	out := make([][]netip.AddrPort, len(nodes))
	for i, n := range nodes {
		for _, a := range answers[n.Host].Addrs {
			out[i] = append(out[i], netip.AddrPortFrom(a, uint16(n.Port)))
		}
	}
	return out
}

// unresolved is the error of the first entry without an address, and says how many there are.
func unresolved(nodes []Node, answers map[string]Answer) error {
	var first error
	entries := 0
	for i, n := range nodes {
		a := answers[n.Host]
		if len(a.Addrs) > 0 {
			continue
		}
		if entries++; first == nil {
			first = fmt.Errorf("server list: entry %d, %q, cannot be resolved: %w", i, n.Host, cmp.Or(a.Err, errUnanswered))
		}
	}
	if entries > 1 {
		return fmt.Errorf("%w (and %d more entries)", first, entries-1)
	}
	return first
}

var errUnanswered = errors.New("no name server has answered yet")

// First is the first address of each entry, an invalid one where there is none.
func First(addrs [][]netip.AddrPort, nodes []Node) []netip.AddrPort {
	out := make([]netip.AddrPort, len(addrs))
	for i, all := range addrs {
		if out[i] = netip.AddrPortFrom(netip.Addr{}, uint16(nodes[i].Port)); len(all) > 0 {
			out[i] = all[0]
		}
	}
	return out
}
