package gpu

import (
	"regexp"
	"strings"
)

// The names that container runtimes and the kubelet give to control groups.
// They are exact, as what they find becomes the value of a label.
var (
	// containerGroup is a container's own group: its id, with the name of the
	// runtime before it and a suffix where systemd keeps the groups.
	containerGroup = regexp.MustCompile(`^(?:(?:cri-containerd|crio|docker|libpod)-)?([0-9a-f]{64})(?:\.scope)?$`)
	// podGroup is the group of a pod. The UID of a static pod has no dashes;
	// systemd takes underscores instead of dashes.
	podGroup = regexp.MustCompile(`^(?:[a-z0-9_.-]+-)?pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?$`)
)

// parseCgroup finds the container and the pod of a process in its
// /proc/PID/cgroup; "" is none, or unknown. The paths may begin anywhere, as
// they are relative to the namespace of the reader.
func parseCgroup(file string) (container, podUID string) {
	for line := range strings.Lines(file) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // hierarchy, controllers, path
		if len(parts) != 3 {
			continue
		}
		// containerd names a group slice:cri-containerd:id where it was told
		// the wrong one of the two ways.
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
