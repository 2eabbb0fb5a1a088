package doctor

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"ringcli/configs/codes"
)

// slowName is how long a name may take: a bring-up asks for all of the list.
const slowName = time.Second

func (e *exam) hostRow() Preflight {
	host, err := e.Hostname()
	if err != nil {
		return skip("host-name", "", "%v", err)
	}
	switch l := e.names[host]; {
	case l.Err != nil:
		return finding(Warn, "host-name", host, l.Err.Error()).but(codes.HostUnknown, "an address, if lists are to name this node so",
			fmt.Sprintf("echo ADDRESS %s >> /etc/hosts  # or DNS", host))
	case l.addr.IsLoopback():
		return pass("host-name", host, "%s here; a ring takes the address that the route to the others says", l.addr)
	case !e.Local(l.addr):
		return finding(Warn, "host-name", host, l.addr.String()).but(codes.AddressForeign, "an address of this node",
			"getent hosts "+host+"  # /etc/hosts or DNS has an old one")
	}
	return pass("host-name", host, "%s", e.names[host].addr)
}

// listRows are one for all names that lead somewhere, and one for each that does not.
func (e *exam) listRows() (rows []Preflight) {
	if len(e.asked.List) == 0 {
		return []Preflight{skip("names", "", "no --list is given")}
	}
	good := 0
	var slowest time.Duration
	slow := ""
	told := map[string]bool{}
	for i, n := range e.asked.List {
		l := e.names[n.Host]
		switch {
		case l.Err != nil:
			if !told[n.Host] {
				rows = append(rows, finding(Fail, "names", n.Host, l.Err.Error()).but(codes.HostUnknown, fmt.Sprintf("an address: it is entry %d of the list", i),
					fmt.Sprintf("getent hosts %s  # correct the name, DNS or /etc/hosts, or list the address", n.Host)))
			}
			told[n.Host] = true
			continue
		}
		if good++; l.Took > slowest {
			slowest, slow = l.Took, n.Host
		}
	}
	value := fmt.Sprintf("%d of %d have an address", good, len(e.asked.List))
	switch {
	case good == 0:
		return rows
	case slowest >= slowName:
		return append(rows, finding(Warn, "names", slow, fmt.Sprintf("%s; the slowest took %.1f s", value, slowest.Seconds())).but(codes.Timeout, "within 1 s",
			"resolvectl status  # a name server that does not answer; /etc/hosts asks none"))
	}
	return append(rows, pass("names", "", "%s", value))
}

func (e *exam) addressRow() Preflight {
	switch {
	case len(e.asked.List) == 0:
		return skip("address", "", "no --list is given")
	case !e.known():
		return skip("address", "", "not all names have an address")
	case e.asked.Index < 0:
		return e.entriesHere()
	case e.localErr != nil:
		return failed("address", e.asked.List[e.asked.Index].Host, e.localErr, "", "ip address  # shows those of this node: correct --index or --list")
	}
	others := 0
	for _, a := range e.neighbours() {
		if !a.IsLoopback() {
			others++
		}
	}
	of := e.asked.List[e.asked.Index].Host
	if e.local.IsLoopback() && others > 0 {
		return finding(Fail, "address", of, e.local.String()).but(codes.AddressForeign, "one that the neighbours reach",
			"ip route get "+e.neighbours()[0].String()+"  # list the address of this node that leads there")
	}
	return pass("address", of, "%s", e.local)
}

// entriesHere says which entries of the list are this node.
func (e *exam) entriesHere() Preflight {
	var here []string
	var first netip.Addr
	for i, a := range e.addrs {
		if e.Local(a.Addr()) {
			if here = append(here, fmt.Sprint(i)); !first.IsValid() {
				first = a.Addr()
			}
		}
	}
	if len(here) == 0 {
		return finding(Fail, "address", "", "no entry of the list is an address of this node").but(codes.AddressForeign, "one",
			"ip address  # shows those of this node: correct --list")
	}
	what := "entry"
	if len(here) > 1 {
		what = "entries"
	}
	return pass("address", "", "%s, %s %s of the list", first, what, strings.Join(here, ", "))
}
