package api

import (
	"math/rand/v2"
	"testing"
)

func FuzzGrowingText(f *testing.F) {
	f.Add("Hi there, you all", uint64(7), false)
	f.Add("\n\n\nHa ha ha ha", uint64(1), true)
	f.Fuzz(func(t *testing.T, text string, seed uint64, whole bool) {
		// A text that grows comes out in the pieces that it grew by.
		rng := rand.New(rand.NewPCG(seed, 0))
		g := growingText{whole: true}
		var got string
		for end := 0; end < len(text); {
			end = min(len(text), end+rng.IntN(4))
			got += string(g.next([]byte(text[:end])))
		}
		if got != text {
			t.Fatalf("%q came out as %q", text, got)
		}
		// Pieces come out as they are once one does not fit the one before.
		g = growingText{whole: whole}
		g.next([]byte("x"))
		g.next([]byte("y"))
		if piece := g.next([]byte(text)); string(piece) != text {
			t.Fatalf("the piece %q came out as %q", text, piece)
		}
	})
}
