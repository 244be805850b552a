// `millracectl transfer`: asks the leader of the group, and says why not when it cannot be.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { ctl, scratchFile } from '../support/ctl.ts';

interface Rig {
  readonly config: string;
  /** Changes that the nodes were asked for. */
  readonly asked: string[];
}

/** Two nodes that say that node 1 leads group 0 and group 1 has no leader. */
async function startNodes(t: TestContext, status: number): Promise<Rig> {
  const asked: string[] = [];
  const ports: number[] = [];
  for (const id of [1, 2]) {
    const group = { current_term: 3, voter_ids: [1, 2], committed_index: 1, last_applied: 1 };
    const groups = [1, null].map((leader, i) => ({ ...group, raft_group_id: i, leader }));
    const server = createServer(({ method, url }, response) => {
      if (method !== 'GET') {
        asked.push(`node ${id}: ${method} ${url}`);
        response.writeHead(status, { 'content-type': 'application/json' });
        return response.end(JSON.stringify(status === 200 ? {} : { reason: 'it takes no leaderships' }));
      }
      return response.end(JSON.stringify({ node_id: id, raft_groups: groups }));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => server.close());
    ports.push((server.address() as AddressInfo).port);
  }
  const nodes = ports.map((port, i) => `[[nodes]]\nid = ${i + 1}\nhost = "127.0.0.1"\nadmin_port = ${port}\n`);
  return { config: scratchFile('cluster.toml', nodes.join('')), asked };
}

test('transfer asks the leader, and refuses what cannot be', async (t) => {
  const { config, asked } = await startNodes(t, 200);
  const run = (group: string, to: string) => ctl(['transfer', '--config', config, '--group', group, '--to', to]);
  const done = await run('0', '2');
  assert.deepEqual([done.code, done.stdout], [0, 'group 0: node 1 hands over to node 2\n'], done.stderr);
  assert.deepEqual(asked.splice(0), ['node 1: POST /__svc/raft/0/leader/transfer/2']);
  assert.match((await run('0', '1')).stdout, /node 1 leads it already/);
  const refused = [await run('0', '9'), await run('7', '2'), await run('1', '2')];
  assert.deepEqual(
    refused.map(({ code }) => code),
    [2, 2, 1],
  );
  assert.match(
    refused.map(({ stderr }) => stderr).join(''),
    /no voter of group 0.*has group 7.*group 1 has no leader/s,
  );
  assert.deepEqual(asked, []);
});

test("the leader's refusal is said", async (t) => {
  const { config } = await startNodes(t, 409);
  const { code, stderr } = await ctl(['transfer', '--config', config, '--group', '0', '--to', '2']);
  assert.deepEqual([code, /node 1 does not hand over: it takes no leaderships/.test(stderr)], [1, true], stderr);
});
