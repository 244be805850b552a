// Rows of a version before, without checksums, move into the table of those that have: some MiB at once, and a start
// that ends in between goes on.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { convertRows } from '../../src/store/convert-rows.ts';
import { Environment, LmdbTx } from '../../src/store/environment.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';

const ROWS = 13;
const MIB = 1024 * 1024;

const keyOf = (i: number): Uint8Array => Uint8Array.of(0, 1, 0x64, i);
const valueOf = (i: number): Uint8Array => new Uint8Array(i === 3 ? 0 : MIB).fill(i);

async function withEnvironment<T>(directory: string, use: (environment: Environment) => T): Promise<T> {
  const environment = new Environment(directory);
  try {
    return use(environment);
  } finally {
    await environment.close();
  }
}

/** Ends at the n-th commit. */
class EndingEnvironment extends Environment {
  left = Infinity;

  override commit(write: () => void): void {
    if (this.left-- <= 0) throw new Error('the end');
    super.commit(write);
  }
}

test('a conversion that is interrupted at any commit goes on, and all rows are there once', async (t) => {
  const directory = temporaryFolder('convert-rows');
  t.after(() => removeFolder(directory));
  await withEnvironment(directory, (old) => {
    old.commit(() => {
      for (let i = 0; i < ROWS; i++) old.unchecked.putSync(keyOf(i), valueOf(i));
    });
  });
  let ended = 0;
  for (let isDone = false; !isDone;) {
    const environment = new EndingEnvironment(directory);
    environment.left = 1;
    try {
      convertRows(environment);
      isDone = true;
    } catch (error) {
      assert.match(String(error), /the end/);
      ended++;
    }
    await environment.close();
  }
  assert(ended >= 2, `ended ${ended} times`);
  await withEnvironment(directory, (environment) => {
    assert.deepEqual(convertRows(environment), {});
    const tx = new LmdbTx(environment.state);
    let rows = 0;
    tx.range(Uint8Array.of(0), Uint8Array.of(1), false, (key, value) => {
      assert.deepEqual(new Uint8Array(key), keyOf(rows));
      assert.deepEqual(new Uint8Array(value), valueOf(rows));
      return ++rows > 0;
    });
    assert.equal(rows, ROWS);
    // The pages that it emptied are free for later commits.
    assert(environment.freeBytes() > 3 * MIB);
  });
});
