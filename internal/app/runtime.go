package app

import (
	"os"
	"runtime"
	"runtime/debug"

	"github.com/inference-exporter/inference_exporter/prober"
)

// A smallFleet has fewer endpoints than this. Its heap is so small that it may grow by half before garbage is collected: 50
// endpoints take 1 MB more for it, and a tenth less processor time. And one processor is enough for it. With more, Go's runtime
// wakes a second thread for most tokens that arrive, to find nothing to do: a fifth of the processor time of 50 endpoints.
const smallFleet = 100

// paceRuntime sets how often garbage is collected and how many processors Go code uses at a time, by the number of endpoints,
// unless the environment does. The memory in use of many endpoints changes little: collecting garbage more often costs less
// than the memory that it would otherwise take. Where the kernel does not stamp what arrives, all processors are used, as a
// token that is read late would look late.
func (d *daemon) paceRuntime() {
	small := d.fleet.Size() < smallFleet
	if !d.env.OwnProcess || d.paced != nil && *d.paced == small {
		return
	}
	d.paced = &small
	if os.Getenv("GOGC") == "" {
		percent := 25
		if small {
			percent = 50
		}
		debug.SetGCPercent(percent)
	}
	if os.Getenv("GOMAXPROCS") == "" && prober.StampsArrivals() {
		if small {
			runtime.GOMAXPROCS(1)
		} else {
			runtime.SetDefaultGOMAXPROCS()
		}
	}
}
