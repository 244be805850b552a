// scripts/monitoring with a real Prometheus, the exporter and three real nodes: every query of the
// dashboard gives data, every rule is evaluated, every name is served, and a node that is gone raises the
// alert. Only the intervals are shorter than in the files.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse, stringify } from 'yaml';
import { FAMILIES } from '../../src/exporter/families.ts';
import { TestCluster } from '../support/cluster.ts';
import { anchorsOf, readDocument } from '../support/documents.ts';
import { clusterToml, scratchFile, startCtl } from '../support/ctl.ts';
import { REPO_ROOT } from '../support/paths.ts';
import { freePort } from '../support/ports.ts';
import { removeFolder, run, temporaryFolder } from '../support/server.ts';
import { until } from '../support/until.ts';

const FOLDER = join(REPO_ROOT, 'scripts/monitoring');
const PROMETHEUS = '/usr/bin/prometheus';
const skip = existsSync(PROMETHEUS)
  ? false
  : 'prometheus is not installed (apt-get install --no-install-recommends prometheus)';

interface Dashboard {
  readonly panels: readonly { readonly title: string; readonly targets?: readonly { readonly expr: string }[] }[];
}

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: { readonly runbook: string };
  for?: string;
}

interface Rules {
  readonly groups: { readonly rules: Rule[] }[];
}

interface Config {
  readonly global: Record<string, string>;
  readonly scrape_configs: { readonly static_configs: { targets: string[] }[] }[];
}

const dashboard = JSON.parse(readFileSync(join(FOLDER, 'grafana-dashboard.json'), 'utf8')) as Dashboard;
const rules = parse(readFileSync(join(FOLDER, 'alerts.yml'), 'utf8')) as Rules;
const alerts = rules.groups.flatMap((group) => group.rules);
const queries = dashboard.panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr })));

test('every metric of the dashboard and of the alerts is one that the exporter serves', () => {
  const served = new Set(FAMILIES.map(({ name }) => name));
  const used = [...queries, ...alerts].flatMap(({ expr }) => expr.match(/\bmillrace_\w+/g) ?? []);
  assert(used.length > 40);
  assert.deepEqual(
    used.filter((name) => !served.has(name.replace(/_bucket$/, ''))),
    [],
  );
});

test('alerts and dashboard keep the clusters of several exporters apart', () => {
  for (const { alert, expr } of alerts) assert.doesNotMatch(expr, /\b(by|on) \(/, alert);
  for (const { title, expr } of queries)
    for (const [, filter] of expr.matchAll(/\bmillrace_\w+(\{[^,}]*)?/g))
      assert.equal(filter, '{instance=~"$exporter"', title);
});

test('every alert names the page that says what to do', () => {
  for (const { alert, annotations } of alerts) {
    const [path = '', anchor] = annotations.runbook.split('#');
    const document = readDocument(path);
    assert(anchor === undefined || anchorsOf(document).has(anchor), `${alert}: ${annotations.runbook}`);
  }
});

test('promtool takes configuration, rules and their tests', { skip }, () => {
  for (const words of [
    ['check', 'config', 'prometheus.yml'],
    ['test', 'rules', 'alerts.test.yml'],
  ]) {
    const { status, stdout, stderr } = spawnSync('promtool', words, { cwd: FOLDER, encoding: 'utf8' });
    assert.equal(status, 0, stdout + stderr);
  }
});

test('Prometheus fills the dashboard and raises the alert of a node that is gone', { skip }, async (t) => {
  const folder = temporaryFolder('monitoring');
  const cluster = await TestCluster.create({ groups: 2 });
  t.after(async () => {
    await cluster.dispose();
    removeFolder(folder);
  });
  await cluster.startAll();
  const config = scratchFile('cluster.toml', clusterToml(cluster));
  const exporter = startCtl(['exporter', '--config', config, '--listen', '127.0.0.1:0']);
  t.after(() => exporter.interrupt());
  await until('the exporter listens', () => exporter.stdout.endsWith('\n'));
  const target = /http:\/\/([\d.:]+)\/metrics/.exec(exporter.stdout)?.[1] ?? '';

  const prometheusConfig = parse(readFileSync(join(FOLDER, 'prometheus.yml'), 'utf8')) as Config;
  prometheusConfig.global['scrape_interval'] = '1s';
  prometheusConfig.global['evaluation_interval'] = '1s';
  for (const scrape of prometheusConfig.scrape_configs) for (const one of scrape.static_configs) one.targets = [target];
  for (const alert of alerts) if (alert.for !== undefined) alert.for = '1s';
  mkdirSync(join(folder, 'data'));
  writeFileSync(join(folder, 'prometheus.yml'), stringify(prometheusConfig));
  writeFileSync(join(folder, 'alerts.yml'), stringify(rules));
  const port = await freePort();
  const started = run(
    [
      PROMETHEUS,
      `--config.file=${join(folder, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    {},
    folder,
  );
  t.after(async () => {
    started.child.kill('SIGTERM');
    await started.exited;
  });
  const api = async (path: string): Promise<Record<string, unknown>> => {
    try {
      return (await (await fetch(`http://127.0.0.1:${port}/api/v1/${path}`)).json()) as Record<string, unknown>;
    } catch {
      return {};
    }
  };
  const resultOf = async (expr: string): Promise<readonly { readonly value: readonly [number, string] }[]> => {
    const local = expr.replaceAll('$__rate_interval', '20s').replaceAll(/\$(node|exporter)/g, '.*');
    const answer = await api(`query?query=${encodeURIComponent(local)}`);
    assert.notEqual(answer['errorType'], 'bad_data', `${expr}: ${String(answer['error'])}`);
    const { result = [] } = (answer['data'] ?? {}) as { result?: { value: [number, string] }[] };
    return result.filter(({ value }) => value[1] !== 'NaN');
  };
  const firing = async (): Promise<string[]> => {
    const { alerts: raised = [] } = ((await api('alerts'))['data'] ?? {}) as {
      alerts?: { state: string; labels: Record<string, string> }[];
    };
    return raised
      .filter(({ state }) => state === 'firing')
      .map(({ labels }) => `${labels['alertname']} ${labels['node'] ?? ''}`);
  };

  await cluster.client(1).request('PUT', '/demo/log', { 'content-type': 'text/plain' });
  let empty = queries;
  await until(
    () => `data for ${empty.map(({ title, expr }) => `${title}: ${expr}`).join('; ')}`,
    async () => {
      await cluster.client(1).request('POST', '/demo/log', { 'content-type': 'text/plain' }, 'x');
      for (const id of cluster.ids) await cluster.client(id).request('GET', '/demo/log?offset=-1');
      const results = await Promise.all(empty.map(async ({ expr }) => (await resultOf(expr)).length));
      empty = empty.filter((_, i) => results[i] === 0);
      return empty.length === 0;
    },
  );
  const wanted = alerts.map(({ alert }) => `${alert} ok`);
  let health: string[] = [];
  await until(
    () => `every rule is evaluated; now ${health.join(', ')}`,
    async () => {
      const { groups = [] } = ((await api('rules'))['data'] ?? {}) as {
        groups?: { rules: { name: string; health: string }[] }[];
      };
      health = groups.flatMap((group) => group.rules.map((rule) => `${rule.name} ${rule.health}`));
      return health.join() === wanted.join();
    },
  );

  await until(
    'no node is called down',
    async () => !(await firing()).some((one) => one.startsWith('MillraceNodeDown')),
  );
  await cluster.end(3);
  await until(
    () => 'the alert of node 3',
    async () => (await firing()).includes('MillraceNodeDown 3'),
  );
});
