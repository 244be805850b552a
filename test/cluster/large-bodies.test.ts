// The largest bodies while a leader dies: both survivors take them, neither of them ends, and the new leader stays in
// office while it and its follower write 32 MiB at a time.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { BODY_BYTES_MAX } from '../../src/base/limits.ts';
import { TICK_MS } from '../../src/shard/shard.ts';
import { withCluster } from '../support/cluster.ts';
import { until } from '../support/until.ts';
import { ConnectionLost, RawClient, type RawResponse } from '../support/raw-client.ts';

const WRITERS_PER_NODE = 2;
const BODY = Buffer.alloc(BODY_BYTES_MAX, 'large ');
const TAIL = BODY.subarray(-300_000);
const TYPE = { 'Content-Type': 'text/plain' } as const;
/** On each survivor. */
const WANTED = 1;
/** Each takes half a minute at a load of 35. */
const PATIENCE_MS = 240_000;

test('bodies of 32 MiB are acknowledged by both survivors of a leader that is killed', async (t) => {
  await withCluster({ process: true, groups: 1, tickMs: TICK_MS }, async (cluster) => {
    const first = await cluster.leaderOf(0);
    const survivors = cluster.ids.filter((id) => id !== first);
    for (const id of survivors) {
      await cluster.client(first).create(`/b/s${id}`, TYPE);
    }
    await cluster.settled();
    const acknowledged = new Map(survivors.map((id) => [id, 0]));
    let isOver = false;
    const write = async (id: number): Promise<void> => {
      let client = await RawClient.connect(cluster.node(id).port);
      while (!isOver) {
        let answer: RawResponse;
        try {
          answer = await client.request('POST', `/b/s${id}`, TYPE, BODY);
        } catch (error) {
          // On a busy machine this client may send too slowly, or come back after the node closed an idle connection.
          if (!(error instanceof ConnectionLost)) throw error;
          client = await RawClient.connect(cluster.node(id).port);
          continue;
        }
        const { status, headers, body } = answer;
        if (status === 204) acknowledged.set(id, (acknowledged.get(id) as number) + 1);
        else {
          assert.equal(status, 503, body.toString());
          await delay(1000 * Number(headers.get('retry-after')));
        }
      }
      client.destroy();
    };
    await cluster.kill(first);
    const startMs = performance.now();
    const writers = survivors.flatMap((id) => Array.from({ length: WRITERS_PER_NODE }, () => write(id)));
    const enough = until(
      () => `both survivors acknowledge large bodies; now ${[...acknowledged.values()].join(' and ')}`,
      () => Promise.resolve([...acknowledged.values()].every((count) => count >= WANTED)),
      PATIENCE_MS,
    );
    try {
      await Promise.race([enough, Promise.all(writers)]);
      t.diagnostic(`${[...acknowledged.values()].join(' and ')} after ${Math.round(performance.now() - startMs)} ms`);
    } finally {
      isOver = true;
      await Promise.allSettled(writers);
    }
    for (const id of survivors) {
      assert(cluster.node(id).isRunning, `node ${id} runs`);
      const { body } = await cluster.client(id).expect(200, 'GET', `/b/s${id}?offset=${BODY.length - TAIL.length}`);
      assert(body.subarray(0, TAIL.length).equals(TAIL), `what node ${id} acknowledged ends as it was sent`);
    }
  });
});
