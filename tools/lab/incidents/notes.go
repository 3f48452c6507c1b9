package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
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
	// news are those of firing that the notification of the group before did not name.
	news []alert
}

// alert is an alert in a notification.
type alert struct {
	name     string
	endpoint string // in its cluster; "" is none
	scope    string
	text     string // its annotations
}

// of reports whether it is the same alert.
func (a alert) of(b alert) bool { return a.name == b.name && a.endpoint == b.endpoint }

func (a alert) String() string {
	text := a.name
	if a.endpoint != "" {
		text += "(" + a.endpoint + ")"
	}
	return text
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
	if n.isForSomeone() {
		fmt.Printf("%s %s\n", n.at.Format(time.TimeOnly), n)
	}
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
			Status              string
			Labels, Annotations map[string]string
		}
	}
	if err := json.NewDecoder(body).Decode(&message); err != nil {
		return note{}, err
	}
	n := note{receiver: message.Receiver, group: message.GroupKey}
	for _, a := range message.Alerts {
		if a.Status != "firing" {
			continue
		}
		read := alert{name: strings.TrimPrefix(a.Labels["alertname"], "Inference"), scope: a.Labels["scope"]}
		if e := cmp.Or(a.Labels["endpoint"], a.Labels["gateway"]); e != "" { // that has the name of its only endpoint
			read.endpoint = target{cluster: a.Labels["cluster"], endpoint: e}.name()
		}
		for _, name := range slices.Sorted(maps.Keys(a.Annotations)) {
			read.text += name + ": " + a.Annotations[name] + "\n"
		}
		n.firing = append(n.firing, read)
	}
	return n, nil
}

// isForSomeone reports whether it is neither the watchdog nor for nobody.
func (n note) isForSomeone() bool { return n.receiver != "watchdog" && n.receiver != "nobody" }

// all returns the notifications for someone.
func (b *notebook) all() []note {
	b.mu.Lock()
	defer b.mu.Unlock()
	return withNews(slices.DeleteFunc(slices.Clone(b.notes), func(n note) bool { return !n.isForSomeone() }))
}

// withNews says of notifications in their order what is new in each.
func withNews(notes []note) []note {
	before := map[string][]alert{}
	for i := range notes {
		n := &notes[i]
		group := n.receiver + n.group
		n.news = slices.DeleteFunc(slices.Clone(n.firing), func(a alert) bool { return slices.ContainsFunc(before[group], a.of) })
		before[group] = n.firing
	}
	return notes
}
