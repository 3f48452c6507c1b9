package gpu

import (
	"cmp"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/inference-exporter/inference_exporter/internal/foreign"
)

// Bounds of what is shown of processes and read of each.
const (
	maxProcesses  = 128 // of a GPU, those with the most memory
	maxCommBytes  = 64
	maxGroupBytes = 64 << 10
)

// unknown is a number of a ProcessReading that is not known.
const unknown = -1

// readProcesses reads the compute processes of a GPU or, where it is split, of its parts: reading those of all parts
// from the GPU needs privileges.
func (d *device) readProcesses(parts []MIGDevice) ([]ProcessReading, error) {
	if !d.settings.poller.options.Processes {
		return nil, nil
	}
	devices := []Device{d.Device}
	if d.split {
		devices = nil
		for _, part := range parts {
			devices = append(devices, part.Device)
		}
	}
	found := map[int]*ProcessReading{}
	for _, of := range devices {
		err := d.ask("processes", func() error {
			processes, err := of.Processes()
			gatherProcesses(found, processes)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	var shares map[int]float64 // of the multiprocessors, since the poll before
	if !d.split && len(found) > 0 {
		err := fetch(d, "process utilization", &shares, func() (map[int]float64, error) { return newest(&d.seen, d.ProcessUtilization) })
		if err != nil {
			return nil, err
		}
	}
	list := make([]ProcessReading, 0, len(found))
	for _, p := range found {
		p.SMUtilization = orUnknown(shares, p.PID)
		list = append(list, *p)
	}
	slices.SortFunc(list, func(a, b ProcessReading) int {
		return cmp.Or(cmp.Compare(b.MemoryUsed, a.MemoryUsed), cmp.Compare(a.PID, b.PID))
	})
	list = list[:min(len(list), maxProcesses)]
	for i := range list {
		list[i].Name, list[i].Container, list[i].PodUID = lookUp(d.settings.proc, list[i].PID)
	}
	return list, nil
}

func gatherProcesses(found map[int]*ProcessReading, processes []Process) {
	for _, p := range processes {
		r := found[p.PID]
		if r == nil {
			r = &ProcessReading{PID: p.PID, MemoryUsed: unknown, SMUtilization: unknown}
			found[p.PID] = r
		}
		if p.MemoryUsed >= 0 {
			r.MemoryUsed = max(r.MemoryUsed, 0) + p.MemoryUsed
		}
	}
}

// lookUp returns what the kernel reports about a process; "" is unknown, as it is where the process ended or lives in
// another PID namespace.
func lookUp(proc string, pid int) (name, container, podUID string) {
	dir := filepath.Join(proc, strconv.Itoa(pid))
	comm, _ := foreign.ReadFile(filepath.Join(dir, "comm"), maxCommBytes)
	groups, _ := foreign.ReadFile(filepath.Join(dir, "cgroup"), maxGroupBytes)
	container, podUID = parseCgroup(string(groups))
	return strings.TrimSuffix(string(comm), "\n"), container, podUID
}

// The names that container runtimes and the kubelet give to control groups. They are exact, as what they find becomes
// the value of a label.
var (
	// containerGroup is a container's own group: its id, with the name of the runtime before it and a suffix where
	// systemd keeps the groups.
	containerGroup = regexp.MustCompile(`^(?:(?:cri-containerd|crio|docker|libpod)-)?([0-9a-f]{64})(?:\.scope)?$`)
	// podGroup is the group of a pod. The UID of a static pod has no dashes; systemd takes underscores instead of
	// dashes.
	podGroup = regexp.MustCompile(`^(?:[a-z0-9_.-]+-)?pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?$`)
)

// parseCgroup finds the container and the pod of a process in its /proc/PID/cgroup; "" is none, or unknown. The paths
// may begin anywhere, as they are relative to the namespace of the reader.
func parseCgroup(file string) (container, podUID string) {
	for line := range strings.Lines(file) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // hierarchy, controllers, path
		if len(parts) != 3 {
			continue
		}
		// containerd names a group slice:cri-containerd:id if it is configured with the wrong cgroup driver.
		elements := strings.FieldsFunc(parts[2], func(r rune) bool { return r == '/' || r == ':' })
		for _, e := range elements {
			// The innermost container counts: one may run in another.
			if m := containerGroup.FindStringSubmatch(e); m != nil {
				container = m[1]
			}
			if m := podGroup.FindStringSubmatch(e); m != nil {
				podUID = strings.ReplaceAll(m[1], "_", "-")
			}
		}
		if container != "" {
			return container, podUID
		}
	}
	return container, podUID
}
