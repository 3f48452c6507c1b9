// Commands to run by hand, whole: as they are copied they run.
import { copyable } from './copy.js';

const { config } = document.documentElement.dataset;

// quoted writes an argument for a shell.
const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

// probeCommand probes an endpoint as the exporter does: by the name in its configuration,
// with the key there, or without a file by the URL.
function probeCommand({ name, url, api, model, module, failure }) {
  const flags = config ? { 'config.file': config } : { api, model };
  flags.module = failure?.module ?? module;
  const given = Object.entries(flags).filter(([, value]) => value).map(([flag, value]) => `--${flag}=${quoted(value)}`);
  return ['inference_exporter probe', ...given, quoted(config ? name : url)].join(' ');
}

// probeIt says how to probe an endpoint by hand.
export const probeIt = (row) => ['By hand: ', copyable(probeCommand(row))];

// withCommands is a text of the exporter in which what is between backquotes is a command
// about an endpoint, with URL for the endpoint's.
export function withCommands(text, row) {
  return text.split('`').map((part, i) => {
    if (i % 2 === 0) return part;
    return copyable(part === 'inference_exporter probe URL' ? probeCommand(row) : part.replace(/ URL$/, ` ${quoted(row.url)}`));
  });
}
