package fleet

// setScopes completes the incidents that have begun to page.
func (f *Fleet) setScopes() {
	for name, e := range f.active.Load().endpoints {
		if p := e.health.Status().Paging; p != nil && p.Scope == "" {
			e.health.SetScope("endpoint " + name)
		}
	}
}
