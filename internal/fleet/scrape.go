package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/internal/foreign"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/internal/status"
)

// scrape reads the pages of the servers behind one endpoint whenever the
// scheduler says so.
type scrape struct {
	lifecycle
	// from is when readings begin while the model is not known, which is a label
	// of all their values.
	from     time.Time
	id       collector.ServersID
	reader   Reader
	identity *identity
	memory   *memory
	traffic  *traffic // nil where no module asks what users ask
	parts    *ttftParts
	servers  *collector.Servers
	board    *status.Board
	log      serverLog
}

// read reads all pages once and publishes their values.
func (s *scrape) read(ctx context.Context, _ schedule.Run) schedule.Report {
	known := s.identity.get()
	if known.Model == "" && time.Now().Before(s.from) {
		return schedule.Report{}
	}
	var statuses []page.Status
	s.run(ctx, func(ctx context.Context) { statuses = s.reader.Scrape(ctx, known) }, func() {
		if ctx.Err() != nil || hasShortage(statuses) {
			return // ended by us, or for a lack of ours, which says nothing of the servers
		}
		id := s.id
		id.Model = known.Model
		there := present(statuses)
		s.servers.Set(id, there)
		s.parts.read(there)
		s.board.SetServers(id.Endpoint, there)
		s.memory.read(there)
		s.traffic.read(there)
		s.log.all(statuses)
	})
	return schedule.Report{}
}

// present returns the statuses that are published.
func present(statuses []page.Status) []page.Status {
	return slices.DeleteFunc(slices.Clone(statuses), func(st page.Status) bool { return st.Absent })
}

// hasShortage reports whether a page could not be read for a lack of this machine's.
func hasShortage(statuses []page.Status) bool {
	return slices.ContainsFunc(statuses, func(st page.Status) bool { return foreign.IsShortage(st.Err) })
}

// lacksFile reports whether a page was not asked for want of a file of this machine.
func lacksFile(st *page.Status) bool {
	_, ok := errors.AsType[*foreign.FileError](st.Err)
	return ok
}

// serverLog logs what changes from one reading of pages to the next. It is used by one
// reading at a time.
type serverLog struct {
	logger     *slog.Logger
	section    string                 // of the configuration, with the mappings
	states     map[string]serverState // of the last reading, by server
	incomplete map[string]string      // quantities that were missing, by server
}

// all reports servers that come, go or change their state, and quantities
// that a page no longer shows.
func (s *serverLog) all(statuses []page.Status) {
	states := make(map[string]serverState, len(statuses))
	incomplete := map[string]string{}
	for i := range statuses {
		st := &statuses[i]
		states[st.Server] = stateOf(st)
		if before, seen := s.states[st.Server]; !seen || before != stateOf(st) {
			s.one(st, seen)
		}
		if st.Snapshot == nil || len(st.Snapshot.Missing) == 0 {
			continue
		}
		missing := fmt.Sprint(st.Snapshot.Missing)
		incomplete[st.Server] = missing
		if s.incomplete[st.Server] != missing {
			s.logger.Warn("the server's page lacks quantities that this engine always showed; if it renamed them, set them under "+s.section,
				"server", st.Server, "engine", st.Snapshot.Engine, "missing", missing)
		}
	}
	for server := range s.states {
		if _, ok := states[server]; !ok {
			s.logger.Warn("server is gone", "server", server)
		}
	}
	s.states, s.incomplete = states, incomplete
}

// serverState is a state and why it is so.
type serverState struct {
	state  page.State
	reason page.Reason
	absent bool
}

func stateOf(st *page.Status) serverState { return serverState{st.State, st.Reason, st.Absent} }

func (s *serverLog) one(st *page.Status, seen bool) {
	switch {
	case st.State == page.Up && seen:
		s.logger.Info("server's page is back", "server", st.Server, "engine", st.Snapshot.Engine)
	case st.State == page.Up:
		s.logger.Info("reading the server's page", "server", st.Server, "engine", st.Snapshot.Engine, "url", st.URL)
	case st.Absent && lacksFile(st):
		s.logger.Warn("server's page not read: a required file is unusable", "server", st.Server, "url", st.URL, "err", st.Err)
	case st.Absent:
		s.logger.Info("not a server metrics page", "server", st.Server, "url", st.URL, "reason", string(st.Reason), "err", st.Err)
	default:
		s.logger.Warn("cannot read the server's page", "server", st.Server, "url", st.URL, "state", string(st.State),
			"reason", string(st.Reason), "err", st.Err)
	}
}
