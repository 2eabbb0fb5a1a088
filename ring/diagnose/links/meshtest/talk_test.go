package meshtest

import (
	"ringcli/verbs/soft/rc/rctest/fabric"
	"ringcli/verbs/soft/rc/rctest/simnet"
)

// talk is the conversation of a pair without events: messages of one way come in order, and so
// a pair's next step is known. TestTalk holds it against the one by events.
type talk struct {
	fabric.Duplex
	pair
	ports *fabric.Ports
	begun float64
	next  float64 // when it goes on
	tail  int     // of the messages that were sent those that are acknowledged
	acked [outstanding]float64
}

func newTalk(ports *fabric.Ports, a, b int) *talk {
	x := &talk{}
	x.renew(ports, a, b)
	return x
}

func (x *talk) renew(ports *fabric.Ports, a, b int) {
	*x = talk{Duplex: fabric.NewDuplex(ports, a, b), pair: pair{ends: [2]int{a, b}, sample: sample}, ports: ports}
}

// converse has pairs that begin at once measured, each step in the order of time.
func converse(begun float64, list ...*talk) {
	var due simnet.Queue[float64, *talk]
	for _, x := range list {
		x.begun, x.next = begun, begun
		due.Push(begun, x)
	}
	for _, more := due.Next(); more; _, more = due.Next() {
		_, x := due.Pop()
		if x.step(); x.phase < 3 {
			due.Push(x.next, x)
		}
	}
}

// step does what is next.
func (x *talk) step() {
	now, way := x.next, x.phase-1
	switch {
	case x.phase == 0 && x.pinged < 2*pings: // there, or back
		if x.pinged%2 == 0 {
			x.at = now
		}
		x.next, _ = x.Carry(x.pinged%2, now, x.ports.Wire(small), around)
		x.pinged++
		return
	case x.phase == 0:
		x.latency = (now - x.at) / 2
	case x.sent[way] == 0:
		x.at = now
		for range outstanding {
			x.send(way, now)
		}
		x.next = x.acked[0]
		return
	default:
		x.tail++
		if now < x.at+x.sample {
			x.send(way, now)
		}
		if x.tail < x.sent[way] {
			x.next = x.acked[x.tail%outstanding]
			return
		}
		x.packets[way], x.alone[way] = x.sent[way]*(bytes/mtu), float64(x.sent[way]*bytes)/(now-x.at)
		x.tail = 0
	}
	if x.phase++; x.phase == 3 {
		x.over = now
		return
	}
	x.next = max(now, x.begun+float64(x.phase)*part)
}

func (x *talk) send(way int, now float64) {
	_, x.acked[x.sent[way]%outstanding] = x.Carry(way, now, x.ports.Wire(bytes), around)
	x.sent[way]++
}
