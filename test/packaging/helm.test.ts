// The Helm chart, linted and rendered by Helm: for production it is the manifests of scripts/kubernetes, which other tests execute.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { StatefulSet } from 'kubernetes-types/apps/v1.js';
import { parse, parseAllDocuments } from 'yaml';
import { VERSION } from '../../src/config/version.ts';
import { EXPORTER_MANIFESTS, type KubernetesObject, MANIFESTS, manifests } from '../support/containers.ts';
import { findHelm } from '../support/helm.ts';
import { REPO_ROOT } from '../support/paths.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';

const CHART = join(REPO_ROOT, 'scripts/helm/millrace');
const PRODUCTION = ['--values', join(CHART, 'values-production.yaml')];
const OPTIONS = [
  ...['exporter.enabled=true', 'serviceMonitor.enabled=true', 'serviceMonitor.labels.release=prometheus'],
  ...['prometheusRule.enabled=true', 'ingress.enabled=true', 'ingress.host=streams.example', 'ingress.tlsSecret=tls'],
  ...['nodes=5', 'secret=own', 'image.tag=1.2.3', 'storage.className=fast', 'config.HTTP__LONG_POLL_TIMEOUT=20s'],
  ...['clusterTls.mode=dial', 'clusterTls.secret=links', 'config.HTTP__ADMIN_TOKENS_FILE=/run/own'],
  ...['config.SERVER__PUBLIC_URL=https://$(POD_NAME).streams.example', 'tls.secret=web'],
].flatMap((value) => ['--set', value]);

interface Said {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

type Helm = (...words: readonly string[]) => Said;

function helmTest(name: string, body: (helm: Helm, rendered: typeof render) => void): void {
  test(name, (t: TestContext) => {
    const found = findHelm();
    if (typeof found === 'string') return t.skip(found);
    return body((...words) => {
      const { status, stdout, stderr } = spawnSync(found.program, words, { encoding: 'utf8' });
      return { code: status, stdout, stderr };
    }, render);
  });
}

function render(helm: Helm, release: string, ...words: readonly string[]): Map<string, KubernetesObject> {
  const { code, stdout, stderr } = helm('template', release, CHART, ...words);
  assert.equal(code, 0, stderr);
  const objects = parseAllDocuments(stdout).map((document) => document.toJS() as KubernetesObject | null);
  return new Map(
    objects.flatMap((object) => (object === null ? [] : [[`${object.kind} ${object.metadata.name}`, object]])),
  );
}

helmTest('lint has nothing to object to, whatever is switched on', (helm) => {
  for (const words of [[], PRODUCTION, OPTIONS, [...OPTIONS, '--set', 'adminTokens=false']]) {
    const { code, stdout } = helm('lint', '--strict', CHART, ...words);
    assert.equal(code, 0, stdout);
  }
});

helmTest('for production it is object by object what scripts/kubernetes has', (helm, rendered) => {
  const objects = rendered(helm, 'millrace', ...PRODUCTION);
  const plain = [...manifests(MANIFESTS), ...manifests(EXPORTER_MANIFESTS)];
  assert.deepEqual(
    objects,
    new Map(
      [...objects.keys()].flatMap((name) => {
        const found = plain.find(({ kind, metadata }) => `${kind} ${metadata.name}` === name);
        return found === undefined ? [] : [[name, found] as const];
      }),
    ),
  );
  assert.equal(objects.size, plain.length);
});

helmTest('without values it fits a laptop, under any name', (helm, rendered) => {
  const objects = rendered(helm, 'tiny');
  assert.deepEqual(
    [...objects.keys()].toSorted((a, b) => (a < b ? -1 : 1)),
    [
      ...['ConfigMap tiny', 'NetworkPolicy tiny', 'PodDisruptionBudget tiny', 'Service tiny', 'Service tiny-nodes'],
      'StatefulSet tiny',
    ],
  );
  const set = JSON.stringify(objects.get('StatefulSet tiny'));
  assert.match(set, /"replicas":3,.*"whenUnsatisfiable":"ScheduleAnyway".*"image":"millrace:\d/);
  assert(set.includes('"resources":{"limits":{"memory":"1Gi"},"requests":{"cpu":"100m","memory":"256Mi"}}'), set);
  assert(set.includes('"value":"http://$(POD_NAME).tiny-nodes.$(NAMESPACE):4437"'), set);
  assert(set.includes('1=tiny-0.tiny-nodes:4440,2=tiny-1.tiny-nodes:4440,3=tiny-2.tiny-nodes:4440'), set);
  const takesTokens = '"MILLRACE_HTTP__ADMIN_TOKENS_FILE","value":"/run/secrets/millrace/admin-tokens.toml"';
  assert(set.includes(takesTokens), 'operators have tokens without an exporter');
  const without = JSON.stringify(rendered(helm, 'tiny', '--set', 'adminTokens=false').get('StatefulSet tiny'));
  assert(!without.includes('admin-tokens.toml'), 'then the Secret needs no such file');
  assert(!/millrace-(\d|nodes)/.test(JSON.stringify([...objects.values()])), 'no name of another release');
});

helmTest('options: monitoring, an ingress, more nodes, own names', (helm, rendered) => {
  const objects = rendered(helm, 'big', ...OPTIONS);
  const text = (name: string): string => JSON.stringify(objects.get(name));
  const rule = objects.get('PrometheusRule big') as { readonly spec?: unknown } | undefined;
  assert.deepEqual(rule?.spec, parse(readFileSync(join(REPO_ROOT, 'scripts/monitoring/alerts.yml'), 'utf8')));
  const monitor = text('ServiceMonitor big');
  assert.match(monitor, /"labels":\{"app.kubernetes.io\/name":"big","release":"prometheus"\}/);
  assert.match(
    monitor,
    /"matchLabels":\{"app.kubernetes.io\/name":"big-exporter"\}.*"name":"own","key":"scrape-token"/,
  );
  assert.match(monitor, /"targetLabel":"job","replacement":"millrace-big"/);
  assert.match(text('Ingress big'), /"host":"streams.example".*"name":"big".*"secretName":"tls"/);
  const set = text('StatefulSet big');
  assert.match(set, /"replicas":5.*5=big-4\.big-nodes:4440.*"MILLRACE_HTTP__LONG_POLL_TIMEOUT","value":"20s"/);
  for (const name of ['MILLRACE_SERVER__PUBLIC_URL', 'MILLRACE_HTTP__ADMIN_TOKENS_FILE'])
    assert.equal(set.split(`"${name}"`).length, 2, `${name} of the values alone`);
  assert.match(set, /"value":"https:\/\/\$\(POD_NAME\)\.streams\.example"/);
  assert.match(set, /"secretName":"own".*"storageClassName":"fast"/);
  const { spec } = objects.get('StatefulSet big') as StatefulSet;
  const { containers: [node] = [], volumes } = spec?.template.spec ?? {};
  const folder = node?.volumeMounts?.find(({ name }) => name === 'links')?.mountPath;
  assert.equal(volumes?.find(({ name }) => name === 'links')?.secret?.secretName, 'links');
  assert.deepEqual(
    node?.env?.filter(({ name }) => name.startsWith('MILLRACE_CLUSTER__TLS')).map(({ name, value }) => [name, value]),
    [
      ['MILLRACE_CLUSTER__TLS', 'dial'],
      ['MILLRACE_CLUSTER__TLS_CERT', `${folder}/tls.crt`],
      ['MILLRACE_CLUSTER__TLS_KEY', `${folder}/tls.key`],
      ['MILLRACE_CLUSTER__TLS_CA', `${folder}/ca.crt`],
    ],
  );
  assert.match(text('Deployment big-exporter'), /"image":"millrace:1\.2\.3".*"secretName":"own"/);
  assert.equal(text('ConfigMap big').match(/admin_url = /g)?.length, 5);
});

helmTest('with a certificate clients, probes, tool and exporter speak HTTPS', (helm, rendered) => {
  const words = ['--set', 'tls.secret=web,exporter.enabled=true', '--namespace', 'streams'];
  const objects = rendered(helm, 'safe', ...words);
  const { spec } = objects.get('StatefulSet safe') as StatefulSet;
  const { containers: [node] = [], volumes } = spec?.template.spec ?? {};
  for (const probe of [node?.startupProbe, node?.livenessProbe, node?.readinessProbe])
    assert.equal(probe?.httpGet?.scheme, 'HTTPS');
  const valueOf = (name: string): string | undefined => node?.env?.find((one) => one.name === name)?.value;
  const folder = node?.volumeMounts?.find(({ name }) => name === 'tls')?.mountPath ?? '';
  assert.deepEqual(
    ['SERVER__TLS_CERT', 'SERVER__TLS_KEY', 'CA_FILE', 'SERVER__PUBLIC_URL'].map((name) => valueOf(`MILLRACE_${name}`)),
    [
      ...[`${folder}/tls.crt`, `${folder}/tls.key`, `${folder}/ca.crt`],
      'https://$(POD_NAME).safe-nodes.$(NAMESPACE):4437',
    ],
  );
  assert.equal(volumes?.find(({ name }) => name === 'tls')?.secret?.secretName, 'web');
  const { data } = objects.get('ConfigMap safe') as { readonly data?: Readonly<Record<string, string>> };
  assert.match(data?.['cluster.toml'] ?? '', /^admin_url = "https:\/\/safe-2\.safe-nodes\.streams:4438"$/m);
  assert.doesNotMatch(
    data?.['cluster.toml'] ?? '',
    /http_url/,
    'each scrape would ask the client plane, and be denied in its audit log',
  );
  assert.match(JSON.stringify(objects.get('Service safe')), /"appProtocol":"https"/);
  const exporter = JSON.stringify(objects.get('Deployment safe-exporter'));
  assert.match(exporter, /"MILLRACE_CA_FILE","value":"\/run\/secrets\/tls\/ca\.crt".*"secretName":"web"/);
  assert(!exporter.includes('tls.key'), exporter);
  assert.match(
    helm('install', 'safe', CHART, '--dry-run=client', ...words).stdout,
    /Clients ask https:\/\/safe\.streams:/,
  );
});

helmTest('settings of a file of values arrive as they are written', (helm, rendered) => {
  const folder = temporaryFolder('helm');
  const values = join(folder, 'values.yaml');
  const written = { SERVER__MAX_CONNECTIONS: '1000000', STORAGE__COLD__CACHE__MAX_SIZE: '268435456' };
  const others = { TRACING__SAMPLE_RATIO: '0.25', SUBSCRIPTIONS__DELIVER: 'false', HTTP__LONG_POLL_TIMEOUT: '20s' };
  const all = Object.entries({ ...written, ...others });
  writeFileSync(values, ['config:', ...all.map(([key, value]) => `  ${key}: ${value}`), ''].join('\n'));
  const { spec } = rendered(helm, 'own', '--values', values).get('StatefulSet own') as StatefulSet;
  removeFolder(folder);
  const env = spec?.template.spec?.containers[0]?.env ?? [];
  for (const [key, value] of all) assert.equal(env.find(({ name }) => name === `MILLRACE_${key}`)?.value, value, key);
});

helmTest('what cannot be is refused with a sentence', (helm) => {
  for (const [value, sentence] of [
    ['nodes=2', /nodes.*must be one of 3, 5, 7/],
    ['cores=0', /cores/],
    ['node=3', /additional properties 'node' not allowed/],
    ['config.log=x', /invalid propertyName 'log'/],
    ['serviceMonitor.enabled=true', /serviceMonitor\.enabled needs exporter\.enabled/],
    ['exporter.enabled=true,adminTokens=false', /exporter\.enabled needs adminTokens/],
    ['adminTokens=yes', /adminTokens/],
    ['config.SERVER__TLS_CERT=/run/tls.crt', /config\.SERVER__TLS_CERT: probes .* tls\.secret switches to HTTPS/],
    ['config.SERVER__LISTEN=0.0.0.0:8443', /config\.SERVER__LISTEN: probes and services would not find the nodes/],
    ['config.RUNTIME__CORE_COUNT=4', /config\.RUNTIME__CORE_COUNT: the NetworkPolicy .* cores says how many/],
    ['clusterTls.mode=on', /must be one of 'off', 'accept', 'dial', 'require'/],
    ['clusterTls.mode=require', /clusterTls\.secret is the Secret/],
    ['ingress.enabled=true', /ingress\.host is the name that clients ask for/],
  ] as const) {
    const { code, stderr } = helm('template', 'x', CHART, '--set', value);
    assert.equal(code, 1, value);
    assert.match(stderr, sentence, value);
  }
});

test('chart, application and package have one version', () => {
  const { version, appVersion } = parse(readFileSync(join(CHART, 'Chart.yaml'), 'utf8')) as Record<string, string>;
  assert.deepEqual([version, appVersion], [VERSION, VERSION]);
});
