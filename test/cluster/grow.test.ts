// From one node to three, by the commands of src/operator/README.md, while clients write: what the single node
// acknowledged is on all three at the end, and any of them may go.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { readAll } from '../crash/look.ts';
import { TestCluster } from '../support/cluster.ts';
import { clusterToml, ctl, scratchFile } from '../support/ctl.ts';
import { readDocument } from '../support/documents.ts';
import { parseSteps, shellBlocks } from '../readme/shell-block.ts';
import { checkStream, newStream, newTally } from './history.ts';
import { newLoad, write } from './load.ts';

const WRITERS = 3;
const STEPS = parseSteps(shellBlocks(readDocument('src/operator/README.md'), '## From one node to three'));
const TEXT = { 'Content-Type': 'text/plain' } as const;

test('a single node grows into a cluster of three while clients write', async () => {
  const cluster = await TestCluster.create({ groups: 16 });
  const load = newLoad(cluster, 'grow');
  try {
    const first = cluster.node(1);
    writeFileSync(first.configFile, '[raft]\nnode_id = 1\n');
    await first.start();
    const streams = Array.from({ length: 6 }, (_, i) => newStream('grow', `s${i}`));
    for (const { path } of streams) await first.client.create(path, TEXT);
    const work = Promise.all(Array.from({ length: WRITERS }, (_, id) => write(load, id, streams, id % 2 === 0, id)));
    const grow = async (): Promise<void> => {
      // 1. The first node gets its peers, and no leave to vote as a new one.
      for (const id of cluster.ids) cluster.configure(id, false);
      assert.equal(await first.stop(), 0);
      await first.start();
      // 2. The others start empty.
      for (const id of [2, 3]) await cluster.node(id).start('health');
      const file = scratchFile('cluster.toml', clusterToml(cluster));
      // 3. One after the other they are filled, and vote.
      for (const { command, output } of STEPS) {
        const done = await ctl([...command.split(' ').slice(1), '--config', file]);
        assert.deepEqual([done.code, done.stdout.trim()], [0, output], `${command}: ${done.stderr}`);
      }
      assert.equal((await ctl(['add-member', '--config', file, '--node', '3'])).code, 0, 'repeatable');
    };
    try {
      await Promise.race([grow(), work]);
    } finally {
      load.stop();
      await Promise.allSettled([work]);
    }
    await work;
    const ids = await Promise.all(cluster.ids.map(async (id) => (await cluster.metrics(id))['cluster_id']));
    assert(typeof ids[0] === 'string' && ids.every((id) => id === ids[0]), ids.join());
    await cluster.end(1);
    await cluster.ready([2, 3]);
    const tally = newTally();
    const reader = cluster.client(3);
    for (const stream of streams) {
      const found = await readAll(reader, stream.path, false);
      assert(found !== undefined, `node 3 has ${stream.name}`);
      checkStream(stream, Buffer.from(found.content), tally);
      await reader.append(stream.path, TEXT, 'end\n');
    }
    assert(tally.acknowledged > 0);
    process.stdout.write(`grow: ${tally.acknowledged} appends acknowledged meanwhile, none lost\n`);
  } catch (error) {
    process.stderr.write(cluster.logs());
    throw error;
  } finally {
    load.stop();
    await cluster.dispose();
  }
});
