package main

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// note is a notification that a receiver got.
type note struct {
	at       time.Time
	receiver string
	group    string // key of the group
	firing   []alert
}

// alert is an alert in a notification.
type alert struct{ name, endpoint string }

func (a alert) String() string {
	if a.endpoint == "" {
		return a.name
	}
	return a.name + "(" + a.endpoint + ")"
}

func (n note) String() string {
	if len(n.firing) == 0 {
		return n.receiver + ": resolved " + n.group
	}
	texts := make([]string, len(n.firing))
	for i, a := range n.firing {
		texts[i] = a.String()
	}
	return n.receiver + ": " + strings.Join(texts, " ")
}

// pages reports whether it wakes a person.
func (n note) pages() bool { return strings.HasSuffix(n.receiver, "pager") }

// notebook is a webhook of Alertmanager that writes notifications down.
type notebook struct {
	mu    sync.Mutex
	notes []note
}

// maxNotification bounds a notification in bytes.
const maxNotification = 4 << 20

// ServeHTTP implements http.Handler.
func (b *notebook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, err := readNote(io.LimitReader(r.Body, maxNotification))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	n.at = time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notes = append(b.notes, n)
}

// readNote reads the body of a webhook.
func readNote(body io.Reader) (note, error) {
	var message struct {
		Receiver string
		GroupKey string
		Alerts   []struct {
			Status string
			Labels map[string]string
		}
	}
	if err := json.NewDecoder(body).Decode(&message); err != nil {
		return note{}, err
	}
	n := note{receiver: message.Receiver, group: message.GroupKey}
	for _, a := range message.Alerts {
		if a.Status == "firing" {
			n.firing = append(n.firing, alert{strings.TrimPrefix(a.Labels["alertname"], "Inference"), a.Labels["endpoint"]})
		}
	}
	return n, nil
}

// all returns the notifications but those of the watchdog, and of what is for nobody.
func (b *notebook) all() []note {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.notes), func(n note) bool { return n.receiver == "watchdog" || n.receiver == "nobody" })
}
