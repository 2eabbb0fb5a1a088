package bootstrap

import "ringcli/ring/bootstrap/oob"

// The types of frames beside those of the token's handshake; doc.go has the conversation.
const (
	TypeHello     oob.Type = "hello"
	TypeWelcome   oob.Type = "welcome"
	TypeReject    oob.Type = "reject"
	TypeProbe     oob.Type = "probe"
	TypeState     oob.Type = "state"
	TypeInfo      oob.Type = "info"
	TypeParts     oob.Type = "parts"
	TypeAsk       oob.Type = "ask"
	TypeAnswer    oob.Type = "answer"
	TypeCancel    oob.Type = "cancel"
	TypeHeartbeat oob.Type = "heartbeat"
	TypeSighting  oob.Type = "sighting"
	TypeVerdict   oob.Type = "verdict"
	TypeGoodbye   oob.Type = "goodbye"
)
