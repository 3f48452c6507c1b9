package gpu

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
)

// identityFor is how long what identifies a device is taken as known.
const identityFor = 5 * time.Minute

// device is a GPU that is open, with what is remembered of it from one poll to the next.
type device struct {
	Device
	settings *settings

	identity DeviceSnapshot // without anything that was read
	// memoryClock (MHz) and memoryWidth (bits) determine the memory's bandwidth where no other source does; 0 is
	// unknown.
	memoryClock, memoryWidth int
	identified               time.Time

	split   bool            // MIG is on
	refused map[string]bool // names of questions that it cannot answer
	fields  map[Field]bool  // fields that it cannot answer either
	links   int             // how many NVLinks it may have
	// linkVersion is the version of its NVLinks, 0 if it has none or that is unknown.
	linkVersion float64
	linked      [maxLinks]bool // those that returned their state
	c2cLinks    int            // how many links to the CPU it has
	slow        slowReadings
	watched     bool // its critical errors are reported
	down        bool // it no longer answers
	units       meter
	parts       map[string]*meter // by the UUID of the MIG device
	seen        uint64            // newest sample of what processes used

	platform platform
	seenVGPU uint64 // newest sample of what vGPUs used
}

// settings are what all devices share.
type settings struct {
	*tables
	poller *Poller
	proc   string // where the process file system is
	log    *onceLog
}

// onceLog logs each thing once.
type onceLog struct {
	log  *slog.Logger
	seen map[string]bool // bounded: names of questions or numbers of GPUs, and codes
}

func newOnceLog(log *slog.Logger) *onceLog { return &onceLog{log: log, seen: map[string]bool{}} }

func (l *onceLog) problem(question string, err error) {
	if l.isFirst(question, err) {
		l.log.Warn("reading a GPU failed (logged once for all GPUs)", "reading", question, "err", err)
	}
}

// unopened logs that a GPU cannot be opened while others can; nil is none.
func (l *onceLog) unopened(index int, err error) {
	if err != nil && l.isFirst("open "+strconv.Itoa(index), err) {
		l.log.Warn("opening a GPU failed (logged once)", "gpu", index, "err", err)
	}
}

// isFirst reports whether what failed has not failed so before.
func (l *onceLog) isFirst(what string, err error) bool {
	key := what + " " + string(codeOf(err))
	seen := l.seen[key]
	l.seen[key] = true
	return !seen
}

func codeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeUnknown
}

// hasCode reports whether a call failed for one of these reasons.
func hasCode(err error, codes ...Code) bool { return slices.Contains(codes, codeOf(err)) }

// deviceDown reports whether after this error a device has no more answers.
func deviceDown(err error) bool { return hasCode(err, CodeLost, CodeResetRequired) }

// libraryDown reports whether after this error no device has any.
func libraryDown(err error) bool {
	return hasCode(err, CodeUninitialized, CodeDriverNotLoaded, CodeVersionMismatch)
}

// ask asks one question. It returns an error only when this device answers no further questions; a question that the
// device does not support is not asked again.
func (d *device) ask(name string, read func() error) error {
	if d.refused[name] {
		return nil
	}
	d.settings.poller.asking(d.identity.UUID, name)
	refused, err := d.judge(name, read())
	if refused {
		d.refused[name] = true
	}
	return err
}

// judge returns what follows from the error of a question: nothing; refused, not to ask it again; or an error, to ask
// this device nothing more.
func (d *device) judge(name string, why error) (refused bool, err error) {
	switch {
	case why == nil:
		return false, nil
	case deviceDown(why), libraryDown(why):
		return false, why
	case !hasCode(why, CodeNotSupported, CodeFunctionNotFound, CodeNotFound, CodeNoData):
		d.settings.log.problem(name, why)
	}
	return hasCode(why, CodeNotSupported, CodeFunctionNotFound, CodeNoPermission), nil
}

func openDevice(lib Library, index int, s *settings) (*device, error) {
	s.poller.asking("GPU number "+strconv.Itoa(index), "opening")
	handle, err := lib.Device(index)
	if err != nil {
		return nil, err
	}
	d := &device{
		Device: handle, settings: s, refused: map[string]bool{}, fields: map[Field]bool{}, links: usualLinks,
		parts: map[string]*meter{},
	}
	d.identity = DeviceSnapshot{Vendor: NVIDIA, Index: index, Minor: -1, Up: true}
	if d.identity.UUID, err = handle.Text("UUID"); err != nil {
		return nil, err
	}
	return d, nil
}

// identify updates what identifies the device and hardly changes.
func (d *device) identify(now time.Time) error {
	if !d.identified.IsZero() && now.Sub(d.identified) < identityFor {
		return nil
	}
	d.memoryClock, d.memoryWidth = 0, 0
	err := errors.Join(
		d.text("name", d, &d.identity.Name),
		d.text("PCI bus id", d, &d.identity.PCIBusID),
		d.text("compute capability", d, &d.identity.ComputeCapability),
		d.number("minor number", &d.identity.Minor),
		d.number("highest clock memory", &d.memoryClock),
		d.number("memory bus width", &d.memoryWidth),
		d.learnLinks(),
		d.countLinks("number of C2C links", 170, maxC2CLinks, &d.c2cLinks),
		d.learnPlatform(),
		d.learnPlace(),
	)
	if err == nil {
		d.identified = now
	}
	return err
}

// fetch asks one question and keeps the answer. Where there is none, the old one stays.
func fetch[T any](d *device, name string, to *T, read func() (T, error)) error {
	return d.ask(name, func() error {
		answer, err := read()
		if err == nil {
			*to = answer
		}
		return err
	})
}

// text asks a device, or a part of it, for a text.
func (d *device) text(name string, of Device, to *string) error {
	return fetch(d, name, to, func() (string, error) { return of.Text(strings.TrimPrefix(name, ofPart)) })
}

// ofPart is before the name of a question to a MIG device, which may be refused though the GPU answers.
const ofPart = "MIG "

// number asks a device for one whole number. Where there is none, the old one stays.
func (d *device) number(name string, to *int) error {
	numbers, err := d.numbers(name, name, d)
	if len(numbers) > 0 {
		*to = int(numbers[0])
	}
	return err
}

// numbers asks a device, or a part of it, a question for numbers; nil where there are none. name is how the log calls it.
func (d *device) numbers(name, question string, of Device) (all []float64, err error) {
	err = fetch(d, name, &all, func() ([]float64, error) { return of.Numbers(question) })
	return all, err
}

// read asks a device everything. An error means that it has no more answers.
func (d *device) read(now time.Time) (DeviceSnapshot, error) {
	if err := d.learnSplit(); err != nil {
		return DeviceSnapshot{}, err
	}
	if err := d.identify(now); err != nil {
		return DeviceSnapshot{}, err
	}
	snapshot := d.identity
	var out readings
	configured := *d.settings.poller.bandwidth.Load()
	value, source, ok := bandwidth(configured, d.identity.UUID, d.identity.Name, d.memoryClock, d.memoryWidth)
	if ok && (source == sourceConfig || d.platform.virtualization != virtualizationGuest) { // a vGPU has a share that is unknown
		out.add(MemoryBandwidth, source, value)
	}
	if d.platform.virtualization != virtualizationGuest {
		addPeaks(&out, d.identity.Name)
	}
	d.platform.read(&out)
	if d.linkVersion > 0 && !d.split {
		out.add(NVLinkVersion, "", d.linkVersion)
	}
	var parts []MIGDevice
	for _, read := range []func() error{
		func() error { return d.readQuestions(false, &out) },
		func() error { return d.readFields("fields", d.settings.fields, &out) },
		func() error { return d.readSlow(now, &out) },
		func() (err error) { parts, err = d.listParts(); return err },
		func() (err error) { snapshot.MIG, err = d.readParts(parts, now); return err },
		func() error {
			if d.split { // its parts have them
				return nil
			}
			return d.readUnits(&d.units, d, now, &out)
		},
		func() (err error) { snapshot.Processes, err = d.readProcesses(parts); return err },
		func() (err error) { snapshot.VGPUs, err = d.readVGPUs(); return err },
	} {
		if err := read(); err != nil {
			return DeviceSnapshot{}, err
		}
	}
	snapshot.Readings = d.settings.sorted(out.list)
	return snapshot, nil
}

// learnSplit reads whether MIG is on. Which questions a device answers depends on it.
func (d *device) learnSplit() error {
	mode := 0
	if err := d.number("MIG mode", &mode); err != nil {
		return err
	}
	if split := mode != 0; split != d.split {
		d.split = split
		clear(d.refused)
		clear(d.fields)
		d.identified = time.Time{} // so that what was refused of it is asked again
		d.slow = slowReadings{}
		d.units.reset()
	}
	return nil
}

func (t *tables) sorted(list []Reading) []Reading {
	slices.SortStableFunc(list, func(a, b Reading) int { return t.rank[a.Kind] - t.rank[b.Kind] })
	return list
}

// free gives back what the device holds of the library.
func (d *device) free() {
	d.units.reset()
	for _, m := range d.parts {
		m.reset()
	}
}

// maxParts bounds the MIG devices of a GPU; the hardware has seven at most.
const maxParts = 64

// listParts returns the MIG devices that exist now, those of a GPU instance beside each other. They come and go, so
// that their handles are not kept.
func (d *device) listParts() ([]MIGDevice, error) {
	if !d.split {
		return nil, nil
	}
	var parts []MIGDevice
	if err := fetch(d, "MIG devices", &parts, d.MIGDevices); err != nil {
		return nil, err
	}
	parts = slices.Clone(parts[:min(len(parts), maxParts)])
	slices.SortFunc(parts, func(a, b MIGDevice) int {
		return cmp.Or(cmp.Compare(a.GPUInstance, b.GPUInstance), cmp.Compare(a.ComputeInstance, b.ComputeInstance))
	})
	return parts, nil
}

// readParts reads the MIG devices. Memory and units belong to the GPU instance; the first device of each has their
// readings.
func (d *device) readParts(parts []MIGDevice, now time.Time) ([]MIGSnapshot, error) {
	var list []MIGSnapshot
	for i, part := range parts {
		s := MIGSnapshot{GPUInstance: part.GPUInstance, ComputeInstance: part.ComputeInstance}
		if err := d.text(ofPart+"UUID", part, &s.UUID); err != nil {
			return nil, err
		}
		if s.UUID == "" { // it went while it was looked at
			continue
		}
		var err error
		if i == 0 || parts[i-1].GPUInstance != part.GPUInstance {
			if s.Readings, err = d.readPart(part, s.UUID, now); err != nil {
				return nil, err
			}
		}
		var name string
		if err = d.text(ofPart+"name", part, &name); err != nil {
			return nil, err
		}
		_, s.Profile, _ = strings.Cut(name, " MIG ")
		list = append(list, s)
	}
	d.forgetParts(list)
	return list, nil
}

func (d *device) readPart(part MIGDevice, uuid string, now time.Time) ([]Reading, error) {
	var out readings
	if value, ok := (*d.settings.poller.bandwidth.Load())[uuid]; ok {
		out.add(MemoryBandwidth, sourceConfig, value)
	}
	if err := d.readQuestion(ofPart+"memory", d.settings.question("memory"), part, &out); err != nil {
		return nil, err
	}
	if d.parts[uuid] == nil {
		d.parts[uuid] = &meter{}
	}
	if err := d.readUnits(d.parts[uuid], part.Device, now, &out); err != nil {
		return nil, err
	}
	return d.settings.sorted(out.list), nil
}

// forgetParts frees what is held of MIG devices that no longer exist.
func (d *device) forgetParts(list []MIGSnapshot) {
	for uuid, m := range d.parts {
		if !slices.ContainsFunc(list, func(s MIGSnapshot) bool { return s.UUID == uuid }) {
			m.reset()
			delete(d.parts, uuid)
		}
	}
}
