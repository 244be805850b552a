// Reads through other nodes than the one that acknowledged, and through one that has just started again.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { PatientClient } from '../support/patient.ts';
import { RawClient } from '../support/raw-client.ts';
import { TestCluster } from '../support/cluster.ts';

type Three = [PatientClient, PatientClient, PatientClient];
const TEXT = { 'Content-Type': 'text/plain' } as const;

/** Dies and starts again. */
const DYING = 3;
const ROUNDS = 2;

describe('reads of what was acknowledged', () => {
  let cluster: TestCluster;
  before(async () => {
    cluster = await TestCluster.create({ process: [DYING], groups: 4 });
    await cluster.startAll();
  });
  after(() => cluster.dispose());

  it('a reader that moves to another node meets neither 404 nor 416', async () => {
    for (let i = 0; i < 30; i++) {
      const [writer, one, two] = [0, 1, 2].map((step) => cluster.client(1 + ((i + step) % 3))) as Three;
      const path = `/moving/s${i}`;
      await writer.create(path, TEXT);
      await one.expect(200, 'HEAD', path);
      const offset = (await writer.append(path, TEXT, 'hello')).headers.get('stream-next-offset');
      await two.expect(200, 'GET', `${path}?offset=${offset}`);
      await one.expect(200, 'GET', `${path}?offset=${offset}`);
    }
  });

  it('a node that was killed and starts again shows it, or says that it does not yet', async () => {
    let shown = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const writer = cluster.client(DYING);
      const paths = Array.from({ length: 8 }, (_, i) => `/again/r${round}-${i}`);
      for (const path of paths) await writer.create(path, TEXT, 'first;');
      // At once: the node dies before its disk says that the last of them are committed.
      await Promise.all(paths.map((path) => writer.append(path, TEXT, 'second;')));
      await cluster.kill(DYING);
      await cluster.restart(DYING);
      const reader = await RawClient.connect(cluster.node(DYING).port);
      for (const path of paths) {
        const answer = await reader.request('GET', `${path}?offset=-1`);
        if (answer.status === 503) assert.equal(answer.headers.get('retry-after'), '1');
        else {
          assert.equal(answer.status, 200, path);
          assert.equal(answer.body.toString(), 'first;second;', path);
          shown++;
        }
      }
      reader.destroy();
      await cluster.ready();
    }
    assert(shown > 0, 'a leader is there, so it catches up within the five seconds');
  });
});
