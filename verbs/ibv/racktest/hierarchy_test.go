package racktest

import "testing"

// alongHosts is every operation along hosts, of some types and odd counts. The ranks take turns at
// being the root.
func alongHosts(ranks int) []collective {
	const algorithm, protocol = "hierarchical", "eager"
	list := []collective{{command: "barrier", protocol: protocol, algorithm: algorithm}}
	root := 0
	for _, kind := range []struct{ typ, red string }{{"int8", "prod"}, {"bfloat16", "avg"}, {"float32", "sum"}} {
		for _, count := range []int{5, 75001} { // one each, and many segments
			list = append(list,
				collective{"reduce-scatter", protocol, 0, count, algorithm, kind.typ, kind.red},
				collective{"all-gather", protocol, 0, count, algorithm, kind.typ, ""},
				collective{"all-reduce", protocol, 0, count, algorithm, kind.typ, kind.red},
				collective{"broadcast", protocol, root, count, algorithm, kind.typ, ""},
				collective{"reduce", protocol, root, count, algorithm, kind.typ, kind.red})
			root = (root + 1) % ranks
		}
	}
	return list
}

// A ring along hosts with three providers: the two ranks of this host share memory, and between
// hosts some edges are on rxe at both ends, some on soft, and some on rxe at one end and soft at the
// other.
func TestHierarchy(t *testing.T) {
	plain(t, 4)
	further := []seat{onSoft(t, 254), onSoft(t, 201), {node: 4, address: bench.Address(4), plain: true}}
	seats := append(onRXE(1, 2), further...)
	checkCollectives(t, seats, alongHosts(len(seats)))
}
