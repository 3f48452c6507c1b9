package result

import "time"

// Side is which side of a connection a stall is due to. The set is closed: it is a label value.
type Side string

const (
	// SideNetwork is the way there and back: segments were lost or late, and the host answered before or after.
	SideNetwork Side = "network"
	// SideServer is the process that answers: its host, or that of a proxy before it, acknowledged and sent nothing.
	SideServer Side = "server"
	// SideHost is the server's host, or the way to it: it did not even acknowledge.
	SideHost Side = "host"
	// SideExporter is this process: data was there, or could have been, and was not read in time.
	SideExporter Side = "exporter"
	// SideUnknown is a stall of which the kernel showed too little.
	SideUnknown Side = "unknown"
)

// Sides lists the closed set.
func Sides() []Side { return []Side{SideNetwork, SideServer, SideHost, SideExporter, SideUnknown} }

// Description returns the side in words, as in "a stall of the network".
func (s Side) Description() string {
	switch s {
	case SideHost:
		return "the server's host or the way to it"
	case SideUnknown:
		return "an unknown side"
	}
	return "the " + string(s)
}

// Stall is the longest silence of a reply that was long enough to ask the kernel for its reason. It is immutable.
type Stall struct {
	Side Side
	// At is when the silence began, counted from Result.Start, and Duration how long it lasted, by the process' clock.
	At, Duration time.Duration
	// Samples is how often the kernel was asked during the silence.
	Samples int
	// Evidence is what speaks for the side, in words that hold nothing from others.
	Evidence []string
}
