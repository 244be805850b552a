// A cluster is switched from plain links to TLS and back while clients write and read: by rolling restarts, and by SIGHUP.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { type TestCluster, withCluster } from '../support/cluster.ts';
import { clusterToml, ctl, scratchFile } from '../support/ctl.ts';
import { HostAgent } from '../support/host-agent.ts';
import { Authority } from '../support/node-certificates.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';
import { until } from '../support/until.ts';
import { GROUPS, count, underLoad } from './under-load.ts';

type Mode = 'off' | 'accept' | 'dial' | 'require';

/** The settings of each node. */
class Settings {
  readonly folder = temporaryFolder('cluster-tls');
  readonly authority = new Authority(join(this.folder, 'authority'));
  readonly #modes = new Map<number, Mode>();
  readonly #keys = new Map<number, string>();

  readonly of = (id: number): string => `tls = "${this.#modes.get(id) ?? 'off'}"\n${this.#keysOf(id)}`;

  set(cluster: TestCluster, id: number, mode: Mode): void {
    this.#modes.set(id, mode);
    cluster.configure(id);
  }

  /** In the files of the one before. */
  renew(id: number): void {
    const { certPath, keyPath } = this.authority.certify(id);
    const text = `tls_cert = "${certPath}"\ntls_key = "${keyPath}"\ntls_ca = "${this.authority.caPath}"`;
    this.#keys.set(id, text);
  }

  #keysOf(id: number): string {
    if (!this.#keys.has(id)) this.renew(id);
    return this.#keys.get(id) ?? '';
  }
}

async function withTls(
  options: { readonly process?: boolean },
  body: (cluster: TestCluster, settings: Settings) => Promise<void>,
): Promise<void> {
  const settings = new Settings();
  try {
    await withCluster({ ...options, groups: GROUPS, cluster: settings.of }, (cluster) => body(cluster, settings));
  } finally {
    removeFolder(settings.folder);
  }
}

/** Encrypted sessions of all that a node has: of the shards of the other nodes. */
async function sessions(cluster: TestCluster, id: number): Promise<string> {
  const { peer_tls_sessions: tls, peer_sessions: all } = await cluster.metrics(id);
  return `${String(tls)} of ${String(all)}`;
}

async function allSessionsAre(cluster: TestCluster, wanted: string): Promise<void> {
  for (const id of cluster.ids)
    await until(`${wanted} encrypted at node ${id}`, async () => (await sessions(cluster, id)) === wanted);
}

type Step = readonly [Mode, encrypted: string];

const THERE_AND_BACK: readonly Step[] = [
  ['accept', '0 of 2'],
  ['dial', '2 of 2'],
  ['require', '2 of 2'],
  ['dial', '2 of 2'],
  ['accept', '0 of 2'],
  ['off', '0 of 2'],
];

test('rolling restarts switch a cluster to TLS, and no acknowledged write is lost', async () => {
  await withTls({}, async (cluster, settings) => {
    const agent = await HostAgent.start(cluster);
    const file = scratchFile('cluster.toml', clusterToml(cluster));
    try {
      await underLoad('switch to TLS', cluster, 93, async (load, faults) => {
        for (const [mode, encrypted] of THERE_AND_BACK.slice(0, 3)) {
          agent.onRestart = (id) => settings.set(cluster, id, mode);
          const command = ['restart', '--config', file, '--restart-cmd', agent.command, '--poll-interval-secs', '0.2'];
          const done = await ctl(command);
          assert.equal(done.code, 0, done.stderr);
          await allSessionsAre(cluster, encrypted);
          count(faults, `all nodes ${mode}`);
        }
        const seen = [...load.statuses.keys()].filter((status) => ![200, 204, 503].includes(status));
        assert.deepEqual(seen, [], 'clients see no error but a 503 that they may repeat');
      });
    } finally {
      await agent.idle;
      agent.close();
    }
  });
});

test('SIGHUP switches a cluster to TLS and back, and renews certificates without an end of links', async () => {
  await withTls({ process: true }, async (cluster, settings) => {
    const hangUp = async (id: number): Promise<void> => {
      const server = cluster.node(id);
      const before = server.log().length;
      process.kill(server.pid, 'SIGHUP');
      await until(`node ${id} reloads`, () => /"msg":"(reloaded|the reload failed)/.test(server.log().slice(before)));
      assert.match(server.log().slice(before), /"cluster_tls":"(changed|none)".*"msg":"reloaded"/);
    };
    const counters = async (name: string): Promise<unknown[]> =>
      await Promise.all(cluster.ids.map(async (id) => (await cluster.metrics(id))[name]));
    await underLoad('SIGHUP to TLS', cluster, 94, async (load, faults) => {
      const pass = async ([mode, encrypted]: Step): Promise<void> => {
        for (const id of cluster.ids) {
          settings.set(cluster, id, mode);
          await hangUp(id);
        }
        await allSessionsAre(cluster, encrypted);
        count(faults, `all nodes ${mode}`);
      };
      for (const step of THERE_AND_BACK.slice(0, 3)) await pass(step);
      const links = (id: number): number =>
        cluster
          .node(id)
          .log()
          .match(/peer link is up/g)?.length ?? 0;
      const made = cluster.ids.map(links);
      const ends = await counters('cluster_certificate_end_unix_ms');
      await until('later', () => Date.now() % 1000 < 100);
      for (const id of cluster.ids) {
        settings.renew(id);
        await hangUp(id);
      }
      const renewed = await counters('cluster_certificate_end_unix_ms');
      for (const [i, end] of ends.entries()) assert.ok(Number(renewed[i]) > Number(end), `node ${cluster.ids[i]}`);
      assert.deepEqual(cluster.ids.map(links), made);
      // The new ones work: for the node that starts again, and for those that dial it.
      await cluster.end(1);
      await cluster.restart(1);
      await allSessionsAre(cluster, '2 of 2');
      for (const step of THERE_AND_BACK.slice(3)) await pass(step);
      const seen = [...load.statuses.keys()].filter((status) => ![200, 204, 503].includes(status));
      assert.deepEqual(seen, [], 'clients see no error but a 503 that they may repeat');
    });
    // A certificate that cannot be used changes nothing, and the log says why.
    settings.set(cluster, 2, 'accept');
    settings.authority.certify(2, { names: 'DNS:node2.example' });
    process.kill(cluster.node(2).pid, 'SIGHUP');
    await cluster.node(2).logged(/cluster\.tls_cert: expected the name URI:millrace:\/\/millrace\/node\/2/);
    assert.equal(await sessions(cluster, 2), '0 of 2');
  });
});
