package verbs

import "fmt"

// AsyncEvent is what happened to a device outside any request (struct
// ibv_async_event).
type AsyncEvent struct {
	Type EventType
	QPN  uint32 // the queue pair that it is about; 0: none
	Port int    // the port that it is about; 0: none
}

func (e AsyncEvent) String() string {
	switch {
	case e.QPN != 0:
		return fmt.Sprintf("QP 0x%06x: %s", e.QPN, e.Type)
	case e.Port != 0:
		return fmt.Sprintf("port %d: %s", e.Port, e.Type)
	}
	return e.Type.String()
}

// EventType is the kind of an event (enum ibv_event_type).
type EventType uint32

// The values are libibverbs' own.
const (
	EventCQErr            EventType = 0
	EventQPFatal          EventType = 1
	EventQPReqErr         EventType = 2
	EventQPAccessErr      EventType = 3
	EventCommEst          EventType = 4
	EventSQDrained        EventType = 5
	EventPathMig          EventType = 6
	EventPathMigErr       EventType = 7
	EventDeviceFatal      EventType = 8
	EventPortActive       EventType = 9
	EventPortErr          EventType = 10
	EventLIDChange        EventType = 11
	EventPKeyChange       EventType = 12
	EventSMChange         EventType = 13
	EventSRQErr           EventType = 14
	EventQPLastWQEReached EventType = 16
	EventClientReregister EventType = 17
	EventGIDChange        EventType = 18
	EventWQFatal          EventType = 19
)

func (t EventType) String() string {
	return name(uint32(t), "event type", "CQ error", "local work queue catastrophic error", "invalid request local work queue error",
		"local access violation work queue error", "communication established", "send queue drained", "path migrated",
		"path migration request error", "local catastrophic error", "port active", "port error", "LID change", "P_Key change",
		"SM change", "SRQ catastrophic error", "SRQ limit reached", "last WQE reached", "client reregistration", "GID table change",
		"WQ fatal error")
}

// Bad reports whether the event stands for a loss: a queue pair, a queue, the
// port or the whole device can no longer be used.
func (t EventType) Bad() bool {
	switch t {
	case EventCQErr, EventQPFatal, EventQPReqErr, EventQPAccessErr, EventPathMigErr, EventDeviceFatal, EventPortErr, EventSRQErr, EventWQFatal:
		return true
	}
	return false
}
