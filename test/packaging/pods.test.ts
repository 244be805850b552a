// The pods of the Kubernetes manifests, with the entry point of the image: start lines, hooks and probes
// executed without a container runtime, and the exporters of both files beside them. Changed is only what
// a container has of its own (addresses, names and folders), and there are 4 groups instead of 16.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { delimiter, dirname, join } from 'node:path';
import process from 'node:process';
import { after, before, describe, it } from 'node:test';
import type { Deployment, StatefulSet } from 'kubernetes-types/apps/v1.js';
import type { ConfigMap, Container } from 'kubernetes-types/core/v1.js';
import { VERSION } from '../../src/config/version.ts';
import {
  COMPOSE,
  EXPORTER_MANIFESTS,
  MANIFESTS,
  PORTS_PER_NODE,
  SECRET,
  composeFile,
  exporterPort,
  localized,
  manifests,
  mountSecrets,
  readText,
  wordsOf,
} from '../support/containers.ts';
import { SessionClient } from '../session/client.ts';
import { linkBuilt, stopCleanly, waitReady } from '../support/package.ts';
import { freePort, freePorts } from '../support/ports.ts';
import { type Run, removeFolder, run, temporaryFolder, within } from '../support/server.ts';
import { PATIENCE_MS, until } from '../support/until.ts';

const NODES = [0, 1, 2];
const PROMETHEUS = '/usr/bin/prometheus';

const folder = temporaryFolder('pods');
after(() => removeFolder(folder));
mountSecrets(folder);

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
    const pod = `${set.metadata?.name}-${ordinal}`;
    const fields: Readonly<Record<string, string>> = { 'metadata.name': pod, 'metadata.namespace': 'streams' };
    const env: Record<string, string> = { MILLRACE_RAFT__GROUP_COUNT: '4' };
    // As Kubernetes does it: a value may name variables that stand before it.
    for (const { name, value = '', valueFrom } of container.env ?? []) {
      const path = valueFrom?.fieldRef?.fieldPath;
      env[name] =
        path === undefined ? value.replaceAll(/\$\((\w+)\)/g, (all, of) => env[of] ?? all) : (fields[path] ?? '');
    }
    const local = JSON.parse(localized(JSON.stringify(env), ordinal, firstPort, folder)) as Record<string, string>;
    // As in a container: `node` and the two programs are on the path.
    const path = [join(folder, 'node_modules', '.bin'), dirname(process.execPath), process.env['PATH'] ?? ''];
    return { ...local, HOSTNAME: pod, PATH: path.join(delimiter) };
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
    linkBuilt(folder);
    firstPort = await freePorts(NODES.length * PORTS_PER_NODE + 1);
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
    const narrow = begin(['millracectl', 'drain', '--node', '1', ...token('exporter-token')], 0);
    assert.notEqual(await within(narrow.exited, PATIENCE_MS, 'a drain by the exporter'), 0);
    assert.match(narrow.output(), /"exporter" has observe/);
  });

  it('have a name before the hook of their start asks by it', async () => {
    // Kubernetes tells a pod's address when a container has started, hook included, or an init container has ended.
    const [first] = set.spec?.template.spec?.initContainers ?? [];
    assert(first?.command !== undefined, 'the hook would wait for a name that waits for the hook');
    assert.equal(first.image, container.image);
    await execute(first.command, 0);
  });

  it('tell clients where each of them is, and which one leads', async (t) => {
    const urls = NODES.map((ordinal) => `http://127.0.0.1:${port(ordinal, 'http')}`);
    for (const ordinal of NODES) {
      const headers = [`Authorization: Bearer ${SECRET}`];
      const client = await SessionClient.connect(port(ordinal, 'http'), { headers });
      t.after(() => client.destroy());
      await client.until(() => client.leaders?.groups.every((url) => urls.includes(url ?? '')) === true);
      assert.equal(client.leaders?.self, urls[ordinal]);
    }
  });

  for (const [file, { words, probe }] of Object.entries(exporters())) {
    it(`are scraped by the exporter of ${file}`, async (t) => {
      const exporter = begin(words, 0);
      t.after(async () => await endsAt('SIGTERM', exporter));
      await until(
        () => `the exporter listens: ${exporter.output()}`,
        () => exporter.output().includes('/metrics'),
      );
      if (typeof probe === 'string') assert.equal(await statusOf(exporterPort(firstPort), probe), 200);
      else await execute(probe, 0);
      assert.equal(await statusOf(exporterPort(firstPort), '/metrics'), 401, 'the token of scrapers is asked for');
      const headers = { authorization: `Bearer ${SECRET}` };
      await until('all nodes answer', async () => {
        const answer = await fetch(`http://127.0.0.1:${exporterPort(firstPort)}/metrics`, { headers });
        return (await answer.text()).match(/^millrace_up\{node="\d"\} 1$/gm)?.length === NODES.length;
      });
    });
  }

  const skip = existsSync(PROMETHEUS)
    ? false
    : 'prometheus is not installed (apt-get install --no-install-recommends prometheus)';
  it(`are seen by the Prometheus of ${COMPOSE}`, { skip }, async (t) => {
    const { command = [], volumes = [] } = composeFile().services['prometheus'] ?? {};
    const data = join(folder, 'prometheus');
    const local = (text: string): string =>
      localized(text, 0, firstPort, folder)
        .replaceAll('/etc/prometheus/', `${data}/`)
        .replaceAll('.path=/prometheus', `.path=${data}/data`)
        .replaceAll('_interval: 15s', '_interval: 1s');
    mkdirSync(join(data, 'data'), { recursive: true });
    for (const [source = '', target = ''] of volumes.map((volume) => volume.split(':')))
      if (source.startsWith('.')) writeFileSync(local(target), local(readText(join(dirname(COMPOSE), source))));
    const port = await freePort();
    const exporter = begin(exporters()[COMPOSE].words, 0);
    const prometheus = run([PROMETHEUS, ...command.map(local), `--web.listen-address=127.0.0.1:${port}`], {}, data);
    t.after(async () => await Promise.all([exporter, prometheus].map(async (one) => await endsAt('SIGTERM', one))));
    await until(
      () => `Prometheus has all nodes: ${prometheus.output()}`,
      async () => {
        const query = encodeURIComponent('sum(millrace_up)');
        const answer = await fetch(`http://127.0.0.1:${port}/api/v1/query?query=${query}`).catch(() => undefined);
        return (await answer?.text())?.includes(`"${NODES.length}"]`) === true;
      },
    );
    const rules = await (await fetch(`http://127.0.0.1:${port}/api/v1/rules`)).text();
    assert.match(rules, /MillraceNodeDown/);
  });

  it('hand their leaderships over before they stop, and take some again after they start', async () => {
    assert.match(await hook(2, 'preStop'), /^node 3: drained \(/m);
    await stopCleanly(started[2] as Run);
    start(2);
    await allReady();
    writeFileSync(join(folder, 'run/secrets/millrace/wrong-token'), 'not-this-one\n');
    const wrong = (container.lifecycle?.postStart?.exec?.command ?? []).map((word) =>
      word.replace('"$MILLRACE_HTTP__ADMIN_TOKEN_FILE"', '/run/secrets/millrace/wrong-token'),
    );
    const refused = begin(wrong, 2);
    assert.equal(await within(refused.exited, PATIENCE_MS, 'a start with a wrong token'), 1, refused.output());
    assert.match(refused.output(), /bearer token/);
    assert.equal(await hook(2, 'postStart'), 'node 3: drain mark cleared\n');
    const status = await execute(['millracectl', 'status', '--json', ...token()], 0);
    assert.doesNotMatch(status, /maintenance-drain/);
  });

  function token(name = 'admin-token'): string[] {
    return ['--token-file', `/run/secrets/millrace/${name}`];
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

async function endsAt(signal: NodeJS.Signals, { child, exited }: Run): Promise<void> {
  child.kill(signal);
  await within(exited, PATIENCE_MS, `the end at ${signal}`);
}

interface Exporter {
  readonly words: readonly string[];
  /** A path to ask, or a command to run. */
  readonly probe: string | readonly string[];
}

function exporters(): Readonly<Record<typeof COMPOSE | typeof EXPORTER_MANIFESTS, Exporter>> {
  const { entrypoint = [], command = [], healthcheck } = composeFile().services['exporter'] ?? {};
  const deployment = manifests(EXPORTER_MANIFESTS).find(({ kind }) => kind === 'Deployment') as Deployment;
  const [container] = deployment.spec?.template.spec?.containers ?? [];
  assert.equal(container?.image, `millrace:${VERSION}`);
  return {
    [COMPOSE]: { words: [...entrypoint, ...command], probe: healthcheck?.test.slice(1) ?? [] },
    [EXPORTER_MANIFESTS]: {
      words: [...(container.command ?? []), ...(container.args ?? [])],
      probe: container.readinessProbe?.httpGet?.path ?? '',
    },
  };
}
