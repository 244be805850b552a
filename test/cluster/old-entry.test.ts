// A data directory whose log ends with an entry that is larger than any frame, as the first release wrote it when
// writes had waited for an election: the node starts, leads with it, and its follower gets it whole.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { join } from 'node:path';
import { test } from 'node:test';
import { ENTRY_DATA, type Entry } from '../../src/raft/types.ts';
import { ShardStore } from '../../src/store/shard-store.ts';
import { State } from '../../src/stream/core/state.ts';
import { Command, commandBytesMax, newCommandFields, writeCommand } from '../../src/protocol/command.ts';
import { EntryBuilder } from '../../src/group/entry.ts';
import { FRAME_PAYLOAD_BYTES_MAX } from '../../src/peer/codec/frame.ts';
import { STORE_OPTIONS } from '../store/temporary.ts';
import { withCluster } from '../support/cluster.ts';
import { until } from '../support/until.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';

const BODY = Buffer.alloc(22 * 1024 * 1024, 'parked ');
const BODIES = 3;
const TYPE = { 'Content-Type': 'text/plain' } as const;

/** As all that was gathered in a turn was put together, without a bound. */
function unboundedEntry(): Uint8Array {
  const builder = new EntryBuilder();
  const fields = newCommandFields();
  Object.assign(fields, {
    kind: COMMANDS.append.number,
    bucket: 'b',
    stream: 's',
    contentType: 'text/plain',
    payload: BODY,
  });
  const bytes = new Uint8Array(commandBytesMax(fields));
  const view = new DataView(bytes.buffer);
  writeCommand(fields, bytes, view, 0);
  const command = new Command();
  command.read(bytes, view, 0);
  for (let i = 0; i < BODIES; i++) builder.add(command, Date.now());
  return builder.finish();
}

/** Puts the entry at the end of the group's log; how many bytes it has. */
async function writeInto(directory: string): Promise<number> {
  const store = new ShardStore(join(directory, 'shard-0'), STORE_OPTIONS);
  const state = new State(0, store.tx, store.prefix(0));
  const log = store.openLog(0, state.appliedIndex, state.appliedTerm);
  store.load([]);
  const { term } = store.vote(0);
  const index = log.lastIndex() + 1;
  const data = unboundedEntry();
  const entries: readonly Entry[] = [{ term, index, kind: ENTRY_DATA, data }];
  const batch = {
    group: 0,
    entries,
    hardState: undefined,
    snapshot: undefined,
    persistIndex: index,
  };
  store.append([batch]);
  await store.close();
  return data.length;
}

test('an entry above every frame in the log of one node reaches the other', async () => {
  await withCluster({ nodes: 2, groups: 1 }, async (cluster) => {
    await cluster.client(1).create('/b/s', TYPE);
    await cluster.settled();
    // Neither leads without the other, and the one that ends last has the newest log: it gets the entry.
    for (const id of [2, 1]) await cluster.end(id);
    assert((await writeInto(cluster.node(1).dataDir)) > FRAME_PAYLOAD_BYTES_MAX);
    await cluster.startAll();
    for (const id of cluster.ids) {
      await until(`node ${id} shows what the entry holds`, async () => {
        assert(cluster.node(id).isRunning, `node ${id} ended`);
        const { headers } = await cluster.client(id).request('HEAD', '/b/s');
        return Number(headers.get('stream-next-offset')) === BODIES * BODY.length;
      });
    }
    await cluster.client(2).append('/b/s', TYPE, 'more');
  });
});
