// The directory of the cold store is moved away and back under load: what is made while it is away would hide it, or
// nest it.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { DirStore, makeDirStore } from '../../../src/cold/store/dir-store.ts';
import { StoreError } from '../../../src/cold/store/store.ts';
import { removeFolder, temporaryFolder } from '../../support/server.ts';

const ROUNDS = 40;
const WRITERS = 8;

/** Puts and removals of new keys in new folders until told to stop; the keys that must be there in the end. */
async function load(store: DirStore, name: string, isOver: () => boolean): Promise<string[]> {
  const kept: string[] = [];
  for (let i = 0; !isOver(); i++) {
    const key = `${name}/${i}/a/b/object`;
    try {
      await store.put(key, new Uint8Array(randomBytes(100)));
      if (i % 3 === 0) await store.remove([key]);
      else kept.push(key);
    } catch (error) {
      assert.ok(error instanceof StoreError && error.failure === 'unreachable', String(error));
      assert.match(error.message, /is its file system mounted\?/);
    }
  }
  return kept;
}

for (const what of ['nothing', 'an empty folder'] as const) {
  test(`a store that is moved away under load is not made again where ${what} is in its place`, async () => {
    const folder = temporaryFolder('moved');
    const place = join(folder, 'store');
    let over = false;
    try {
      await makeDirStore(place, 'r');
      const store = new DirStore(place, 'r');
      const writers = Array.from({ length: WRITERS }, (_, i) => load(store, `w${i}`, () => over));
      for (let round = 0; round < ROUNDS; round++) {
        for (let i = 0; i < 3; i++) await store.put(`round/${round}/${i}`, new Uint8Array(10));
        renameSync(place, `${place}.away`);
        if (what !== 'nothing') mkdirSync(place);
        // Writes under way have ended when as many new ones have failed.
        for (let i = 0; i < 2 * WRITERS; i++) await assert.rejects(store.put('x/y/z', new Uint8Array(1)));
        if (what === 'nothing') assert.equal(existsSync(place), false, `round ${round}: the store was made again`);
        else assert.deepEqual(readdirSync(place), [], `round ${round}: written below the mount point`);
        rmSync(place, { recursive: true, force: true });
        renameSync(`${place}.away`, place);
      }
      over = true;
      const kept = (await Promise.all(writers)).flat();
      const page = await store.list('w', '', 1_000_000);
      const found = new Set(page.objects.map(({ key }) => key));
      assert.deepEqual(
        kept.filter((key) => !found.has(key)),
        [],
        'what was put is there',
      );
      assert.deepEqual(readdirSync(join(place, 'r', '.tmp')), [], 'no temporary file is left');
    } finally {
      over = true;
      removeFolder(folder);
    }
  });
}

test('folders are made with their parents only where a start, or a backup that begins, does it', () => {
  // A node must not write below a mount point whose disk is gone. The tool makes what a person named.
  const ofNodes = (name: string): boolean => name.endsWith('.ts') && !name.startsWith('operator/');
  const sources = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter(ofNodes);
  const makers = sources.filter((name) => {
    const text = readFileSync(join('src', name), 'utf8');
    return /mkdir(Sync)?\([^;]*recursive|makeFolder\(/.test(text);
  });
  const known = ['backup/format/location.ts', 'cold/store/dir-store.ts', 'server/data-dir.ts'];
  assert.deepEqual(makers.sort(), known, 'makeFolder: lockDataDir, makeDirStore and Location.claim');
});
