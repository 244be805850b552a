// Whether a cluster is free for a restore, when its nodes know different things.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { checkFree } from '../../../src/backup/tool/restore.ts';
import { readClusterFile } from '../../../src/nodes/cluster-file.ts';
import { Cluster } from '../../../src/nodes/cluster.ts';
import { scratchFile } from '../../support/ctl.ts';

/** A node that answers does so within this, also on a machine that stalls. */
const TIMEOUT_MS = 10_000;

/** Nodes with these buckets; undefined: one that does not tell. */
async function clusterOf(t: TestContext, ...told: readonly (readonly string[] | undefined)[]): Promise<Cluster> {
  const nodes = told.map(async (names, i) => {
    const server = createServer((_, response) => {
      if (names === undefined) return void response.writeHead(503).end();
      return void response.end(JSON.stringify({ buckets: Object.fromEntries(names.map((name) => [name, {}])) }));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => server.close());
    return { id: i + 1, host: '127.0.0.1', admin_port: (server.address() as AddressInfo).port };
  });
  const file = scratchFile('c.json', JSON.stringify({ nodes: await Promise.all(nodes) }));
  const { signal } = new AbortController();
  const options = { timeoutMs: TIMEOUT_MS, token: undefined, ca: undefined, signal };
  return new Cluster(await readClusterFile(file, process), options);
}

test('a cluster is free when no node reports a bucket, whichever answers first', async (t) => {
  await checkFree(await clusterOf(t, [], undefined, []));
  await assert.rejects(
    checkFree(await clusterOf(t, [], ['shop', 'a'], undefined, ['a', 'b', 'c'])),
    /the cluster is not empty: it has the buckets "shop", "a", "b" and 1 more; nothing was restored/,
  );
});
