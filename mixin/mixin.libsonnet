// The alerts, recording rules and dashboards of inference_exporter as a monitoring
// mixin, see https://monitoring.mixins.dev. They are the files in ../alerts, all sets
// of rules, and ../dashboards, which are for the default configuration. For another
// one, or for fewer sets, put what "inference_exporter rules" prints in their place:
//
//   (import '.../mixin.libsonnet') + {
//     prometheusRules:: { groups: [] },
//     prometheusAlerts:: std.parseYaml(importstr 'inference.rules.yml'),
//   }
{
  prometheusRules+:: { groups+: std.parseYaml(importstr '../alerts/recording.yml').groups },
  prometheusAlerts+:: {
    groups+:
      std.parseYaml(importstr '../alerts/alerts.yml').groups
      + std.parseYaml(importstr '../alerts/servers.yml').groups
      + std.parseYaml(importstr '../alerts/gpu.yml').groups
      + std.parseYaml(importstr '../alerts/quality.yml').groups
      + std.parseYaml(importstr '../alerts/budgets.yml').groups,
  },
  grafanaDashboards+:: {
    'inference-capacity.json': import '../dashboards/capacity.json',
    'inference-endpoint.json': import '../dashboards/endpoint.json',
    'inference-engine.json': import '../dashboards/engine.json',
    'inference-fleet.json': import '../dashboards/fleet.json',
    'inference-gpu.json': import '../dashboards/gpu.json',
    'inference-self.json': import '../dashboards/self.json',
  },
}
