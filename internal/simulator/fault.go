package simulator

import (
	"slices"
	"strings"
)

// Fault is one way in which a server misbehaves. A request shows it when its
// path starts with /fault/NAME.
type Fault struct {
	// Name identifies the fault; lower case with underscores.
	Name string
	// Description says in one line what the server does.
	Description string

	// unread takes the request over before its body is read.
	unread func(*exchange) error
	// answer takes the request over once it is read, or prepares the reply and
	// returns false.
	answer func(*exchange) (done bool, err error)
	// ask changes what the server understands of a request.
	ask func(*ask)
	// shape, frame and wire replace parts of a stream; see stream.go.
	shape func(*exchange, sink) sink
	frame frameFunc
	wire  func(*exchange) wire
}

// Faults lists all faults, by name.
func Faults() []Fault {
	all := slices.Concat(statusFaults(), answerFaults(), frameFaults(), lineFaults(), usageFaults(), tokenFaults(),
		endFaults(), silenceFaults(), wireFaults())
	slices.SortFunc(all, func(a, b Fault) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// FaultNamed returns the fault of the given name.
func FaultNamed(name string) (Fault, bool) {
	all := Faults()
	i := slices.IndexFunc(all, func(f Fault) bool { return f.Name == name })
	if i < 0 {
		return Fault{}, false
	}
	return all[i], true
}

// oddToken is the output token, counted from 1, at which faults in the middle
// of a stream strike; those before it are written in full.
const oddToken = 3

// shapeOf makes a fault's shape of a function over the events.
func shapeOf(change func(x *exchange, e *event, next sink) error) func(*exchange, sink) sink {
	return func(x *exchange, next sink) sink {
		return func(e *event) error { return change(x, e, next) }
	}
}

// atOddToken makes a shape that acts instead of writing token oddToken. When
// act returns nil, the token and the rest of the stream follow.
func atOddToken(act func(x *exchange, next sink) error) func(*exchange, sink) sink {
	return func(x *exchange, next sink) sink {
		tokens := 0
		return func(e *event) error {
			if e.tokens > 0 {
				if tokens++; tokens == oddToken {
					if err := act(x, next); err != nil {
						return err
					}
				}
			}
			return next(e)
		}
	}
}
