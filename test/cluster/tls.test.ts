// A cluster is switched from plain links to TLS and back while clients write and read: by SIGHUP, and by rolling
// restarts.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { type TestCluster, withCluster } from '../support/cluster.ts';
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

async function withTls(body: (cluster: TestCluster, settings: Settings) => Promise<void>): Promise<void> {
  const settings = new Settings();
  try {
    await withCluster({ groups: GROUPS, cluster: settings.of }, (cluster) => body(cluster, settings));
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

test('SIGHUP switches a cluster to TLS and back, and rolling restarts do; certificates are renewed without an end of links', async () => {
  await withTls(async (cluster, settings) => {
    const hangUp = async (id: number): Promise<void> => {
      const { msg, cluster_tls: links } = await cluster.node(id).hangUp();
      assert.deepEqual([msg, links === 'changed' || links === 'none'], ['reloaded', true]);
    };
    const restart = async (id: number): Promise<void> => {
      await cluster.end(id);
      await cluster.restart(id);
      await cluster.ready();
    };
    const counters = async (name: string): Promise<unknown[]> =>
      await Promise.all(cluster.ids.map(async (id) => (await cluster.metrics(id))[name]));
    await underLoad('switch to TLS', cluster, 94, async (load, faults) => {
      const pass = async (how: typeof hangUp, [mode, encrypted]: Step): Promise<void> => {
        for (const id of cluster.ids) {
          settings.set(cluster, id, mode);
          await how(id);
        }
        await allSessionsAre(cluster, encrypted);
        count(faults, `${how.name} until all nodes ${mode}`);
      };
      for (const step of THERE_AND_BACK.slice(0, 3)) await pass(hangUp, step);
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
      await restart(1);
      await allSessionsAre(cluster, '2 of 2');
      for (const step of THERE_AND_BACK.slice(3)) await pass(hangUp, step);

      // A certificate that cannot be used changes nothing, and the log says why.
      settings.set(cluster, 2, 'accept');
      settings.authority.certify(2, { names: 'DNS:node2.example' });
      const { reason } = await cluster.node(2).hangUp();
      assert.match(String(reason), /cluster\.tls_cert: expected the name URI:millrace:\/\/millrace\/node\/2/);
      assert.equal(await sessions(cluster, 2), '0 of 2');
      settings.renew(2);

      for (const step of THERE_AND_BACK.slice(0, 3)) await pass(restart, step);
      const seen = [...load.statuses.keys()].filter((status) => ![200, 204, 503].includes(status));
      assert.deepEqual(seen, [], 'clients see no error but a 503 that they may repeat');
    });
  });
});
