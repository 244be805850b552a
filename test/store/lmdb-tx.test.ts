import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Environment, LmdbTx } from '../../src/store/environment.ts';
import type { Tx } from '../../src/base/tx.ts';
import { type Random, createRandom, seedFromEnvironment } from '../support/random.ts';
import { SortedMapTx } from '../stream/sorted-map-tx.ts';

class TemporaryTable {
  readonly #directory = mkdtempSync(join(tmpdir(), 'millrace-table-'));
  #environment = new Environment(this.#directory);
  tx: Tx = new LmdbTx(this.#environment.state);

  constructor(t: TestContext) {
    t.after(async () => {
      await this.#environment.close();
      rmSync(this.#directory, { recursive: true, force: true });
    });
  }

  commit(write: () => void): void {
    this.#environment.commit(write);
  }

  async reopen(): Promise<void> {
    await this.#environment.close();
    this.#environment = new Environment(this.#directory);
    this.tx = new LmdbTx(this.#environment.state);
  }
}

/** Short keys over few bytes, so that many are prefixes of each other; never empty, LMDB has no such key. */
function randomKey(random: Random): Uint8Array {
  const bytes = [0, 1, 0x61, 0xfd, 0xff];
  return Uint8Array.from({ length: random.int(1, 4) }, () => random.pick(bytes));
}

function collect(tx: Tx, start: Uint8Array, end: Uint8Array, reverse: boolean, most: number): string[] {
  const found: string[] = [];
  tx.range(start, end, reverse, (key, value) => {
    found.push(`${Buffer.from(key).toString('hex')}=${Buffer.from(value).toString('hex')}`);
    return found.length < most;
  });
  return found;
}

function compareReads(random: Random, real: Tx, model: Tx, what: string): void {
  for (let i = 0; i < 6; i++) {
    const key = randomKey(random);
    const value = real.get(key);
    const hex = value === undefined ? undefined : Buffer.from(value).toString('hex');
    const expected = model.get(key);
    assert.equal(hex, expected === undefined ? undefined : Buffer.from(expected).toString('hex'), what);
    const [start, end] = [randomKey(random), randomKey(random)];
    const reverse = random.chance(0.5);
    const most = random.pick([1, 2, 1000]);
    const bounds = `[${Buffer.from(start).toString('hex')}, ${Buffer.from(end).toString('hex')}) reverse=${reverse}`;
    assert.deepEqual(
      collect(real, start, end, reverse, most),
      collect(model, start, end, reverse, most),
      `${what} ${bounds}`,
    );
  }
}

test('the state table behaves as a sorted map, inside and outside of commits', async (t) => {
  const seed = seedFromEnvironment();
  const random = createRandom(seed);
  const temporary = new TemporaryTable(t);
  const model = new SortedMapTx();
  let failures = 0;
  for (let round = 0; round < 300; round++) {
    const what = `SEED=${seed} round ${round}`;
    const fails = random.chance(0.2);
    const write = (): void => {
      model.begin();
      for (let i = random.int(0, 8); i > 0; i--) {
        const key = randomKey(random);
        if (random.chance(0.3)) {
          model.delete(key);
          temporary.tx.delete(key);
        } else {
          const value = new Uint8Array(random.bytes(random.pick([0, 1, 20, 5000])));
          model.put(key, value);
          temporary.tx.put(key, value);
          value.fill(0xa5);
        }
        if (random.chance(0.3)) compareReads(random, temporary.tx, model, `${what} inside`);
      }
      if (fails) throw new Error('planned');
      model.commit();
    };
    if (fails) {
      assert.throws(() => temporary.commit(write), /planned/);
      model.rollback();
      failures++;
    } else {
      temporary.commit(write);
    }
    compareReads(random, temporary.tx, model, what);
    if (round % 60 === 59) await temporary.reopen();
  }
  assert(failures > 10);
});

test('bounds of a range: start belongs to it, end does not, both ways', (t) => {
  const temporary = new TemporaryTable(t);
  const key = (n: number): Uint8Array => new Uint8Array([0x78, n]);
  temporary.commit(() => [1, 2, 3, 4].forEach((n) => temporary.tx.put(key(n), new Uint8Array([n]))));
  const visited = (from: number, to: number, reverse: boolean, most = 9): number[] => {
    const seen: number[] = [];
    temporary.tx.range(key(from), key(to), reverse, (_key, value) => seen.push(value[0] as number) < most);
    return seen;
  };
  assert.deepEqual(visited(1, 4, false), [1, 2, 3]);
  assert.deepEqual(visited(1, 4, true), [3, 2, 1]);
  assert.deepEqual(visited(1, 4, true, 2), [3, 2]);
  assert.deepEqual(visited(0, 9, true), [4, 3, 2, 1]);
  assert.deepEqual(visited(2, 2, false), []);
  assert.deepEqual(visited(2, 2, true), []);
  assert.deepEqual(visited(3, 2, false), []);
  assert.deepEqual(visited(3, 2, true), []);
});
