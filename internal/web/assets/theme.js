// Sets the theme that was chosen before anything is painted, so that a dark
// page never flashes white. Runs as a plain script in the head.
'use strict';
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem('theme');
  } catch { /* storage is switched off: the system's choice holds */ }
  if (chosen === 'light' || chosen === 'dark') {
    document.documentElement.dataset.theme = chosen;
  }
})();
