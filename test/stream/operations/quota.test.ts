// The cost of a look at a bucket's extras, and what it makes of rows that the disk changed.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RowDamage } from '../../../src/base/row-damage.ts';
import type { Tx } from '../../../src/base/tx.ts';
import { INCARNATION_KEY, TAG } from '../../../src/stream/core/keys.ts';
import { producerBytes } from '../../../src/stream/core/producers.ts';
import { State } from '../../../src/stream/core/state.ts';
import { QuotaExtras } from '../../../src/stream/operations/quota.ts';
import type { ModelCommand } from '../model-command.ts';
import { Proposer } from '../propose.ts';
import { plainCommand } from '../random-commands.ts';
import { GROUP, Replica } from '../replica.ts';

const NOW = 1_700_000_000_000;
const STREAMS = 300;
const PRODUCERS = 60;
/** The ids have four bytes. */
const PRODUCER_BYTES = INCARNATION_KEY.size + 4 + producerBytes(1);
const ALL_BYTES = STREAMS * PRODUCERS * PRODUCER_BYTES;
/** As in quota.ts: the rows of a lookup, and those of the stream at which it ends. */
const ROWS_MAX = 4096 + PRODUCERS;
const HEADS_MAX = 256 + 1;
/** Some passes. */
const LOOKUPS = 20;

/** A store that counts the rows that walks visit, and of which some may be damaged. */
class Counting {
  readonly tx: Tx;
  visited = 0;
  isDamaged: (key: Uint8Array) => boolean = () => false;

  constructor(tx: Tx) {
    this.tx = {
      get: (key) => tx.get(key),
      put: (key, value) => tx.put(key, value),
      delete: (key) => tx.delete(key),
      keys: (start, end, visit) => tx.keys(start, end, visit),
      range: (start, end, isReverse, visit) =>
        tx.range(start, end, isReverse, (key, value) => {
          this.visited++;
          if (this.isDamaged(key)) throw new RowDamage(key, 'the test says so');
          return visit(key, value);
        }),
    };
  }
}

function withProducers(): Replica {
  const replica = new Replica();
  const proposer = new Proposer();
  let index = 0;
  const write = (more: Partial<ModelCommand> & { readonly stream: string }): void => {
    const command = { ...plainCommand(NOW, 'bucket', more.stream), type: 'text/plain', ...more };
    assert.equal(proposer.add(command, undefined, false), 'OK');
  };
  for (let i = 0; i < STREAMS; i++) {
    const stream = `s${i}`;
    write({ kind: 'create', stream });
    for (let id = 100; id < 100 + PRODUCERS; id++)
      write({ stream, body: new Uint8Array(1), producer: { id: `p${id}`, epoch: 0, seq: 0 } });
    for (const { code } of replica.applyEntry(++index, proposer.finish())) assert.equal(code, 'OK');
  }
  replica.flush();
  return replica;
}

/** The extras of a bucket of such streams, and the rows that looking for them visits. */
function lookingUp(): { readonly counting: Counting; readonly lookUp: () => number } {
  const counting = new Counting(withProducers().tx);
  const state = new State(GROUP, counting.tx);
  const name = new Uint8Array(Buffer.from('bucket'));
  const bucket = state.buckets.of(state.tx, name, 0, name.length);
  const extras = new QuotaExtras();
  return { counting, lookUp: () => extras.of(state, bucket) };
}

test('a lookup visits a bounded number of rows, and as many as are needed add up to all of them', () => {
  const { counting, lookUp } = lookingUp();
  let lookups = 0;
  for (let sum = 0; sum < ALL_BYTES; lookups++) {
    assert(lookups < STREAMS, `${sum} bytes after ${lookups} lookups`);
    counting.visited = 0;
    sum = lookUp();
    assert(counting.visited <= ROWS_MAX + HEADS_MAX, `${counting.visited} rows`);
    assert(sum <= ALL_BYTES, `${sum} bytes`);
  }
  assert(lookups > 1);
});

const isHead = (key: Uint8Array): boolean => key[2] === TAG.head && Buffer.from(key).toString().endsWith('s150');
/** The streams are made in the order of their numbers. */
const isProducer = (key: Uint8Array): boolean => key[2] === TAG.producer && key[8] === 151;

for (const [what, isDamaged] of [
  ['head', isHead],
  ['producer', isProducer],
] as const) {
  test(`a stream whose ${what} the disk changed is not counted, and no other is counted twice or left out`, () => {
    const { counting, lookUp } = lookingUp();
    const others = ALL_BYTES - PRODUCERS * PRODUCER_BYTES;
    counting.isDamaged = isDamaged;
    let most = 0;
    for (let lookups = 0; lookups < LOOKUPS; lookups++) most = Math.max(most, lookUp());
    assert.equal(most, others);
    counting.isDamaged = () => false;
    for (let lookups = 0; lookups < LOOKUPS; lookups++) most = Math.max(most, lookUp());
    assert.equal(most, ALL_BYTES);
  });
}
