//go:build linux && cgo

package gpu

import (
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

func (l *nvmlLibrary) Watch(d Device) error {
	const name = call("nvmlDeviceRegisterEvents")
	device, ok := d.(*nvmlDevice)
	if !ok {
		return name.unsupported()
	}
	if _, watched := l.watched[device.handle]; watched {
		return nil
	}
	types, r := device.handle.GetSupportedEventTypes()
	if err := call("nvmlDeviceGetSupportedEventTypes").result(r); err != nil {
		return err
	}
	if types&nvml.EventTypeXidCriticalError == 0 {
		return name.unsupported()
	}
	uuid, err := device.UUID()
	if err != nil {
		return err
	}
	if err := l.needEvents(); err != nil {
		return err
	}
	if err := name.result(device.handle.RegisterEvents(nvml.EventTypeXidCriticalError, l.events)); err != nil {
		return err
	}
	l.watched[device.handle] = uuid
	return nil
}

// needEvents makes the set of events that all devices share.
func (l *nvmlLibrary) needEvents() error {
	if l.events != nil {
		return nil
	}
	events, r := l.binding.EventSetCreate()
	if err := call("nvmlEventSetCreate").result(r); err != nil {
		return err
	}
	l.events, l.watched = events, make(map[nvml.Device]string)
	return nil
}

func (l *nvmlLibrary) NextXID() (XID, error) {
	const name = call("nvmlEventSetWait_v2")
	if l.events == nil {
		return XID{}, name.failure(nvml.ERROR_TIMEOUT)
	}
	// What a wait of 0 ms means is not documented.
	event, r := l.events.Wait(1)
	if err := name.result(r); err != nil {
		return XID{}, err
	}
	return XID{UUID: l.watched[event.Device], Number: event.EventData, At: time.Now()}, nil
}
