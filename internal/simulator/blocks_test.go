package simulator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLeastRecentlyUsedBlockIsEvictedFirst(t *testing.T) {
	p := newBlockPool(4, 2)
	hold := func(found []int, tokens int, hashes ...uint64) []int {
		t.Helper()
		owned, ok := p.takeShared(found, tokens)
		if !ok {
			t.Fatalf("no room for %d tokens with %d blocks free", tokens, p.free)
		}
		for i, h := range hashes {
			p.publish(owned[i], h)
		}
		return owned
	}
	known := func(want ...uint64) {
		t.Helper()
		got := map[uint64]bool{}
		for h := range p.cached {
			got[h] = true
		}
		wanted := map[uint64]bool{}
		for _, h := range want {
			wanted[h] = true
		}
		if d := cmp.Diff(wanted, got); d != "" {
			t.Error(d)
		}
	}
	p.release(hold(nil, 4, 11, 12)) // a text of two blocks
	p.release(hold(nil, 3, 21))     // one of one and a half: takes the untouched blocks
	known(11, 12, 21)
	if n := p.inUse(); n != 0 {
		t.Errorf("%d blocks in use, want 0", n)
	}
	a := hold(p.match([]uint64{11}), 2) // in use now
	b := hold(nil, 4)                   // takes the end of the first text, then the half block
	known(11, 21)
	if _, ok := p.takeShared(p.match([]uint64{11, 99}), 6); ok {
		t.Error("took two blocks beside a shared one, with one free")
	}
	p.release(b)
	p.release(a)
	hold(nil, 8)
	known()
	if n := p.inUse(); n != 4 {
		t.Errorf("%d blocks in use, want 4", n)
	}
}

func TestHashesAreChained(t *testing.T) {
	a := extendHashes(nil, prompt(1, 10), 4)
	if len(a) != 2 {
		t.Fatalf("%d hashes of 10 tokens in blocks of 4, want 2", len(a))
	}
	if b := extendHashes(a[:1:1], prompt(1, 10), 4); b[1] != a[1] {
		t.Error("extending gives another hash than computing at once")
	}
	other := prompt(1, 10)
	other[0]++
	if b := extendHashes(nil, other, 4); b[0] == a[0] || b[1] == a[1] {
		t.Error("a change in the first block must change both hashes")
	}
}

func TestTokenize(t *testing.T) {
	f := func(text string, want int) {
		t.Helper()
		if got := len(tokenize(nil, text)); got != want {
			t.Errorf("%q: %d tokens, want %d", text, got, want)
		}
	}
	f("", 0)
	f("  \n ", 0)
	f("a", 1)
	f("four", 1)
	f("fives", 2)
	f("one two three", 1+1+2)
	f("  internationalization\t", 5)
	if got := len(chatTokens([]string{"one two", "three"})); got != 12+4 {
		t.Errorf("chat of 4 tokens: %d, want 16", got)
	}
	seen := map[token]string{}
	for _, w := range []string{"a", "b", "ab", "ba", "aa", "a\x00", "\x00a", "\x00"} {
		tokens := tokenize(nil, w)
		if len(tokens) != 1 || seen[tokens[0]] != "" {
			t.Errorf("%q shares its token with %q", w, seen[tokens[0]])
		}
		seen[tokens[0]] = w
	}
}

func TestVocabulary(t *testing.T) {
	v := newVocabulary()
	f := func(offset, i int, want string) {
		t.Helper()
		if got := string(v.text(nil, offset, i)); got != want {
			t.Errorf("text(%d, %d) = %q, want %q", offset, i, got, want)
		}
	}
	if len(v) != 100 {
		t.Fatalf("%d words, want 100", len(v))
	}
	f(0, 0, "zero")
	f(0, 19, " nineteen")
	f(0, 20, " twenty")
	f(0, 99, " ninety-nine")
	f(0, 100, " zero")
	f(42, 1, " forty-three")
}
