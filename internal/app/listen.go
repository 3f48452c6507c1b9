package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	toolkit "github.com/prometheus/exporter-toolkit/web"
)

const (
	// shutdownTimeout is how long open requests may take to finish.
	shutdownTimeout = 3 * time.Second
	// The other limits keep slow clients from holding connections, and stuck
	// readers of the metrics from holding off the other ones.
	readTimeout  = 10 * time.Second
	writeTimeout = time.Minute
	idleTimeout  = 2 * time.Minute
)

// serve answers requests until ctx ends, which ends the probes of open requests
// too.
func (d *daemon) serve(ctx context.Context, listeners []net.Listener, flags *toolkit.FlagConfig) error {
	server := &http.Server{
		Handler: d.web.Handler(), ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(d.env.logger.Handler(), slog.LevelWarn),
	}
	server.RegisterOnShutdown(d.web.Close) // which ends the streams of events
	stopped := make(chan struct{})
	running := context.AfterFunc(ctx, func() {
		defer close(stopped)
		shutdown(server)
	})
	for _, l := range listeners {
		if d.env.OnListen != nil {
			d.env.OnListen(l.Addr())
		}
	}
	var err error
	if listeners == nil {
		err = toolkit.ListenAndServe(server, flags, d.env.logger)
	} else {
		err = toolkit.ServeMultiple(listeners, server, flags, d.env.logger)
	}
	if running() { // ended by itself
		return fmt.Errorf("serve http: %w", err)
	}
	<-stopped
	return nil
}

// shutdown lets open requests finish, but not for long.
func shutdown(server *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		_ = server.Close()
	}
}

// listen opens the TCP addresses of the flags before anything else starts, so
// that a taken port ends the program at once. It returns nil where the
// toolkit has to open them: sockets of systemd or of a virtual machine's host.
func listen(flags *toolkit.FlagConfig) ([]net.Listener, error) {
	if flags.WebSystemdSocket != nil && *flags.WebSystemdSocket {
		return nil, nil
	}
	listeners := []net.Listener{}
	for _, address := range *flags.WebListenAddresses {
		if strings.HasPrefix(address, "vsock://") {
			closeAll(listeners)
			return nil, nil
		}
		l, err := listenTCP(address)
		if err != nil {
			closeAll(listeners)
			return nil, err
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// listenTCP listens on an address that a flag gave.
func listenTCP(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if _, ok := errors.AsType[*net.AddrError](err); ok {
		return nil, unusable{fmt.Errorf("open the web server: %w", err)}
	}
	if err != nil {
		return nil, fmt.Errorf("open the web server: %w", err)
	}
	return l, nil
}

func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		_ = l.Close()
	}
}

// ownNames returns the names that this machine has for itself, and those it
// listens on.
func ownNames(listenAddresses []string) []string {
	names := slices.Clone(listenAddresses)
	if host, err := os.Hostname(); err == nil {
		names = append(names, host, host+".local")
	}
	return names
}
