package soft

import "time"

// acking decides when a queue pair sends an ACK. Behind data for the same peer it
// costs next to nothing, by itself a system call at both ends. So it waits for data:
// for a moment, or, if the peers are in a conversation, each message being answered
// soon, until the answer.
type acking struct {
	since    int64 // when an ACK began to be owed; 0: none is
	asked    int64 // when a message came that was not answered yet; 0: none
	late     int64 // when the last ACK was sent by itself that had waited in vain; 0: since a message came
	answered int   // messages in a row that were answered soon
	pace     int64 // how long answers take lately
	lessons  int   // times that the peer turned out to have waited for an ACK
}

const (
	// ackIdle is how many rounds of progress in a row find nothing before an ACK is
	// sent by itself, about a microsecond.
	ackIdle = 2
	// ackLongest is how long an ACK waits at most, and within which an answer is soon:
	// far less than any retransmission timer. In a conversation that takes its time, as
	// between ranks of which eight share a CPU, it is ackPaces times what answers take,
	// and at most one ackShare of the peer's timer, which is taken to be ours. Were it not,
	// an operation of 16 ranks that takes 1 ms would send two ACKs of three by themselves.
	ackLongest = int64(400 * time.Microsecond)
	ackPaces   = 4
	ackShare   = 16
	// conversation is how many answers make one, with no lessons.
	conversation = 8
	// mostLessons bounds those that count.
	mostLessons = 10
	// ackRounds is how many rounds must have found nothing for an ACK to have waited in
	// vain: if there were fewer, it was this process that did not run.
	ackRounds = 16
	// ackPackets is how many packets the peer sends in a conversation without hearing
	// of them: less than would fill its window, and a message that is long is none
	// that is answered.
	ackPackets = 16
)

// patience is how long an ACK waits at most.
func (q *qp) patience() int64 {
	return max(ackLongest, min(ackPaces*q.acking.pace, q.rc.Timeout()/ackShare))
}

// conversing tells whether the next message can be expected to be answered soon, and
// the peer not to wait for its ACK. Each time that it did, the lesson lasts four times
// as long.
func (a *acking) conversing() bool { return a.answered >= conversation<<(2*a.lessons) }

// heard notes that a packet was taken.
func (q *qp) heard(now int64) {
	a := &q.acking
	if !q.rc.OwesAck() {
		return
	}
	if a.since == 0 {
		a.since = now
	}
	if a.asked == 0 {
		a.asked = now
	}
	if a.late != 0 && now-a.late < q.patience() {
		a.lessons = min(a.lessons+1, mostLessons)
	}
	a.late = 0
}

// said notes that so many packets are sent, after so many rounds that found nothing.
func (q *qp) said(packets, idle int, now int64) {
	a := &q.acking
	if a.since != 0 && !q.rc.OwesAck() {
		if packets--; packets == 0 && now-a.since >= q.patience() && idle >= ackRounds {
			a.late, a.answered = now, 0
		}
		a.since = 0
	}
	if packets > 0 && a.asked != 0 {
		took := now - a.asked
		if a.answered++; took >= q.patience() && idle >= ackRounds {
			a.answered = 0
		}
		a.pace += (min(took, 2*a.pace+ackLongest) - a.pace) / 8
		a.asked = 0
	}
	if a.lessons > 0 && a.answered >= conversation<<(2*a.lessons+6) {
		a.lessons-- // it may do otherwise by now
	}
}

// ackDue tells whether the ACK that is owed is sent with so many packets, after so
// many rounds that found nothing. Behind two packets it takes a message of its own,
// behind more or less of them none.
func (q *qp) ackDue(packets, idle int, now int64) bool {
	a := &q.acking
	waits := a.conversing() && q.rc.Unacknowledged() < ackPackets
	switch {
	case now-a.since >= q.patience():
		return true
	case packets > 0:
		return packets != 2 || !waits
	}
	return idle >= ackIdle && !waits
}
