// Package incidents counts the notifications that one incident causes. All of it is
// real but the network and the time: the exporter's scheduler, fleet and pages, the
// storage, engine and rule manager of Prometheus, and the routing, inhibition and
// deduplication of Alertmanager with the configuration of the example stack. They run
// in a bubble of testing/synctest, in which hours take seconds, so that all of it is
// in the tests.
package incidents
