package api

import "bytes"

// growingText makes pieces of a text that a server sends whole in each frame,
// or, depending on how the server was started, in pieces anyway.
type growingText struct {
	whole  bool // a text began with the one before; or set, where that is the default
	pieces bool // a text did not fit the one before, which ends the question
	seen   []byte
}

// next returns what a frame's text adds. A text that begins with the one
// before is taken as grown, and one that the one before begins with as cut at
// its end (by a stop string); anything else proves pieces. Until then a piece
// that repeats the piece before is taken for less than it is.
func (g *growingText) next(text []byte) []byte {
	if g.pieces || len(text) == 0 {
		return text
	}
	fresh := text
	switch {
	case len(text) > len(g.seen) && bytes.HasPrefix(text, g.seen):
		fresh = text[len(g.seen):]
		g.whole = g.whole || len(g.seen) > 0
		g.seen = append(g.seen, fresh...)
	case g.whole && bytes.HasPrefix(g.seen, text):
		fresh = nil
	default:
		g.pieces, g.seen = true, nil
	}
	return fresh
}
