package simulator

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLeastRecentlyUsedBlockIsEvictedFirst(t *testing.T) {
	p := newBlockPool(4, 2)
	hold := func(found []*block, tokens int, hashes ...uint64) []*block {
		t.Helper()
		owned, ok := p.takeShared(found, tokens)
		if !ok {
			t.Fatalf("no room for %d tokens with %d blocks free", tokens, p.free.Len())
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
	a := extendHashes(nil, promptOf(1, 10), 4)
	if len(a) != 2 {
		t.Fatalf("%d hashes of 10 tokens in blocks of 4, want 2", len(a))
	}
	if b := extendHashes(a[:1:1], promptOf(1, 10), 4); b[1] != a[1] {
		t.Error("extending gives another hash than computing at once")
	}
	other := promptOf(1, 10)
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
	if got := len(inTemplate(tokenize(nil, "one two three"))); got != 12+4 {
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

// The tokens of a text are its words in pieces of four bytes at most, and its
// prompt has as many.
func FuzzPieces(f *testing.F) {
	for _, seed := range []string{"", " ", "one two", "  lead and trail\n", "caf\u00e9 \u6570\u5b57 \u00a0x", "a\x00b\xff\xfe c", "fourfour five5"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var joined strings.Builder
		n, want := 0, 0
		for from, to := range pieces(text) {
			if size := to - from; size < 1 || size > 4 {
				t.Errorf("a piece of %d bytes", size)
			}
			joined.WriteString(text[from:to])
			n++
		}
		for _, word := range strings.Fields(text) {
			want += (len(word) + 3) / 4
		}
		if got := joined.String(); got != strings.Join(strings.Fields(text), "") || n != want || len(tokenize(nil, text)) != want {
			t.Errorf("%q: %d pieces, want %d; they make %q", text, n, want, got)
		}
	})
}
