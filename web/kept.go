package web

import (
	"bytes"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
)

const (
	// keptAge is how long a page serves those who ask at the same time.
	keptAge = time.Second
	// maxDetails is of how many endpoints the page is kept.
	maxDetails = 8
)

// keptPage keeps a page for a moment, so that many who ask for it at the same
// time, as after a restart, cost no more than one.
type keptPage struct {
	mu   sync.Mutex
	made time.Time
	page *packedPage
}

// packedPage is a page, and what gzip makes of it, once for all who take that.
type packedPage struct {
	plain  []byte
	packed func() []byte
}

func newPackedPage(plain []byte) *packedPage {
	return &packedPage{plain, sync.OnceValue(func() []byte {
		var out bytes.Buffer
		w, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed) // fails at an unknown level only
		_, _ = w.Write(plain)                             // to a buffer, which does not fail
		_ = w.Close()
		return out.Bytes()
	})}
}

func (k *keptPage) get(produce func() ([]byte, error)) (*packedPage, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.page != nil && time.Since(k.made) < keptAge {
		return k.page, nil
	}
	page, err := produce()
	if err != nil {
		return nil, err
	}
	k.page, k.made = newPackedPage(page), time.Now()
	return k.page, nil
}

// keptDetails keeps the pages of a few endpoints for a moment. All who watch an
// endpoint are told of news at once, and ask for its page then.
type keptDetails struct {
	mu    sync.Mutex
	pages map[string]*keptDetail
}

// keptDetail is a page that holds the changes of its endpoint up to a version.
type keptDetail struct {
	keptPage
	version uint64
}

// of returns the page of an endpoint at a version. One of an older version does
// not do: who asks has been told of the newer one, and of nothing after it.
func (k *keptDetails) of(name string, version uint64) *keptPage {
	k.mu.Lock()
	defer k.mu.Unlock()
	kept := k.pages[name]
	if kept == nil || kept.version != version {
		if k.pages == nil || len(k.pages) >= maxDetails {
			k.pages = make(map[string]*keptDetail, maxDetails)
		}
		kept = &keptDetail{version: version}
		k.pages[name] = kept
	}
	return &kept.keptPage
}
