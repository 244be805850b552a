// Chance against the cold tier of one shard: a store that fails in every way and answers in any order, restarts,
// changes of leadership, streams that come and go. Every byte is read back all the time, and at the end the store holds
// what is referred to and nothing else. SEED=<number> repeats a run.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { test } from 'node:test';
import type { ColdSettings } from '../../../src/cold/ports.ts';
import { objectKnown } from '../../../src/stream/cold/objects.ts';
import { parseObjectKey } from '../../../src/protocol/object-key.ts';
import { type Random, createRandom, seedFromEnvironment } from '../../support/random.ts';
import { ColdHarness } from './harness.ts';
import type { How } from './port.ts';
import { code, find } from '../../shard/harness.ts';
import { IS_THOROUGH } from '../../support/thorough.ts';

const GROUPS = [0, 1];

interface Profile {
  readonly runs: number;
  readonly steps: number;
  readonly streams: number;
  readonly bytesMax: number;
  /** Steps in a hundred that write, and that delete a stream. */
  readonly writes: number;
  readonly removals: number;
  readonly settings: Partial<ColdSettings>;
}

const BUSY: Profile = {
  runs: IS_THOROUGH ? 20 : 10,
  steps: 250,
  streams: 6,
  bytesMax: 900,
  writes: 50,
  removals: 8,
  settings: { flushBytes: 2000, flushBytesMax: 1500, hotBytesMax: 6000, uploadsMax: 3 },
};

/** Streams that leave a chunk behind for each message, and live long enough for these to be merged. */
const SLOW: Profile = {
  runs: IS_THOROUGH ? 6 : 3,
  steps: 1500,
  streams: 2,
  bytesMax: 20,
  writes: 80,
  removals: 0.2,
  settings: { flushIntervalMs: 10, uploadsMax: 3 },
};

class Story {
  readonly random: Random;
  readonly harness: ColdHarness;
  readonly model = new Map<string, Buffer>();
  #runs = 0xaa;

  readonly #profile: Profile;

  constructor(seed: number, profile: Profile) {
    this.#profile = profile;
    this.random = createRandom(seed);
    this.harness = new ColdHarness(profile.settings, GROUPS);
  }

  play(): void {
    for (let step = 0; step < this.#profile.steps; step++) {
      this.#act();
      for (let left = this.random.int(0, 3); left > 0; left--) this.#answerSome();
      this.harness.turn(this.random.pick([1, 5, 25, 120, 700]));
    }
    this.#settle();
  }

  #act(): void {
    const { random, harness } = this;
    const { streams, writes, removals } = this.#profile;
    const chance = random.next() * 100;
    const stream = `s${random.int(0, streams - 1)}`;
    const group = stream.charCodeAt(1) % GROUPS.length;
    if (chance < writes) this.#write(stream, group);
    else if (chance < writes + removals) this.#remove(stream, group);
    else if (chance < 85) this.#check(stream);
    else if (chance < 90) this.#loseLeadership(random.pick(GROUPS));
    else if (chance < 92) harness.restartWith((++this.#runs).toString(16).padStart(16, '0'));
    else if (chance < 96) harness.flushCall(group, stream, 1, random.int(0, 1) * 100);
  }

  #write(stream: string, group: number): void {
    const bytes = this.random.bytes(this.random.int(1, this.#profile.bytesMax));
    const before = this.model.get(stream);
    const slot =
      before === undefined
        ? this.harness.create(group, stream, { body: bytes })
        : this.harness.append(group, stream, bytes);
    const answer = code(find(this.harness.turn(), slot));
    if (answer === 'OK') this.model.set(stream, Buffer.concat([before ?? Buffer.alloc(0), bytes]));
    else assert.equal(answer, 'BACKPRESSURE');
  }

  #remove(stream: string, group: number): void {
    if (!this.model.delete(stream)) return;
    this.harness.remove(group, stream);
    this.harness.turn();
  }

  #check(stream: string): void {
    const expected = this.model.get(stream);
    if (expected === undefined) return;
    const from = this.random.int(0, expected.length);
    const found = this.harness.whole(stream, stream.charCodeAt(1) % GROUPS.length, from);
    assert(found.equals(expected.subarray(from)), `${stream} from ${from}: ${found.length} bytes`);
  }

  #loseLeadership(id: number): void {
    this.harness.loseLeadership(id);
    if (this.random.chance(0.5)) this.harness.turn();
    this.harness.groupOf(id).raft.campaign();
    this.harness.turn();
    assert(this.harness.groupOf(id).leads);
  }

  #answerSome(): void {
    const { random, harness } = this;
    const { port } = harness;
    if (port.open.length === 0) return;
    const at = random.int(0, port.open.length - 1);
    if (random.chance(0.3)) {
      // Late: it is done now, and answered later or never.
      port.happen(port.open[at] as (typeof port.open)[number]);
      return;
    }
    const [asked] = port.open.splice(at, 1);
    if (asked !== undefined) port.perform(asked, random.pick<How>(['ok', 'ok', 'ok', 'error', 'lost']));
  }

  /** The store is well again: everything moves there, and everything else goes. */
  #settle(): void {
    const { harness, model } = this;
    harness.run(45_000);
    for (const stream of model.keys()) this.#check(stream);
    for (const id of GROUPS) {
      const { state } = harness.groupOf(id);
      assert.equal(state.hotBytes, 0, `group ${id} is flushed`);
      assert.equal(state.cold.gcLength, 0, `group ${id} has collected`);
    }
    const known = [...harness.port.objects.keys()].filter((key) => {
      const object = parseObjectKey(key);
      assert(object !== undefined);
      return objectKnown(harness.groupOf(Number.parseInt(key.slice(1, 5), 16)).state, object);
    });
    const objects = GROUPS.reduce((sum, id) => sum + harness.groupOf(id).state.cold.objects, 0);
    assert.equal(known.length, objects, 'every object that is known is in the store');
    assert.equal(harness.port.objects.size, objects, 'and nothing else is');
  }
}

/** All stories of a profile, or that of SEED; how many merges there were. */
function playAll(profile: Profile): number {
  const first = seedFromEnvironment();
  const runs = process.env['SEED'] === undefined ? profile.runs : 1;
  let merges = 0;
  for (let seed = first; seed < first + runs; seed++) {
    const story = new Story(seed, profile);
    try {
      story.play();
    } catch (error) {
      throw new Error(`SEED=${seed}`, { cause: error });
    }
    merges += story.harness.port.merged.length;
  }
  return merges;
}

test('whatever the store does, no byte is lost, and no unneeded object stays', () => {
  playAll(BUSY);
});

test('nor when chunks are merged all the time', () => {
  assert(playAll(SLOW) > 0, 'chunks were merged');
});
