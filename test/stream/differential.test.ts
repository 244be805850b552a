// Random commands against the dumb model. SEED=n repeats a run; COMMANDS=n makes it longer.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hashBytes } from '../../src/stream/core/keys.ts';
import { createRandom, seedFromEnvironment } from '../support/random.ts';
import { Differential, type Schedule } from './differential.ts';
import { COLLIDING_NAMES, type World } from './random-commands.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

const seed = seedFromEnvironment();
const COMMANDS = Number(process.env['COMMANDS'] ?? (IS_THOROUGH ? 20_000 : 5000));

interface Profile {
  readonly name: string;
  readonly share: number;
  readonly world: Omit<World, 'random' | 'nowMs'>;
  readonly schedules: readonly Schedule[];
  readonly readsPerEntry: number;
  /** Chance of something in the cold tier after an entry. */
  readonly cold: number;
  /** Entries between two surveys. */
  readonly surveyEvery: number;
}

const names = (count: number, front: string): string[] => Array.from({ length: count }, (_, i) => `${front}${i}`);
const producers = (count: number): string[] => names(count, 'producer-');

const PROFILES: readonly Profile[] = [
  {
    name: 'few streams, much in each',
    share: 0.3,
    world: {
      buckets: ['bucket', '\ufeffbucket'],
      streams: ['s', 'long/name', '\ufeffs', '\u{1F600}', '\uff5e'],
      producers: producers(4),
      largeShare: 0.12,
      lifetimeShare: 0.05,
    },
    schedules: [
      { flush: 0.02, fail: 0.01, restart: 0.004 },
      { flush: 0.3, fail: 0.05, restart: 0.02 },
    ],
    readsPerEntry: 0.6,
    cold: 0,
    surveyEvery: 150,
  },
  {
    name: 'few streams, moving to the cold store',
    share: 0.35,
    world: {
      buckets: ['bucket', '\ufeffbucket'],
      streams: ['s', 'long/name', '\ufeffs', '\u{1F600}', '\uff5e'],
      producers: producers(4),
      largeShare: 0.2,
      lifetimeShare: 0.05,
    },
    schedules: [
      { flush: 0.02, fail: 0.01, restart: 0.004 },
      { flush: 0.3, fail: 0.05, restart: 0.02 },
    ],
    readsPerEntry: 0.6,
    cold: 0.4,
    surveyEvery: 150,
  },
  {
    name: 'many producers, short lives',
    share: 0.25,
    world: {
      buckets: ['bucket', 'b2', 'b3'],
      streams: [...names(12, 's'), ...COLLIDING_NAMES],
      producers: producers(40),
      largeShare: 0.03,
      lifetimeShare: 0.6,
    },
    schedules: [
      { flush: 0.005, fail: 0.01, restart: 0.004 },
      { flush: 0.15, fail: 0.05, restart: 0.03 },
    ],
    readsPerEntry: 0.5,
    cold: 0.15,
    surveyEvery: 100,
  },
  {
    // More than the head cache keeps, and more buckets than the bucket cache keeps.
    name: 'many streams',
    // Enough streams that heads have to leave the cache (HEADS_CACHED_MAX).
    share: 0.4,
    world: {
      buckets: ['bucket', ...names(1500, 'b')],
      streams: names(4, 'stream-'),
      producers: producers(3),
      largeShare: 0.01,
      lifetimeShare: 0.2,
    },
    schedules: [
      { flush: 0.01, fail: 0.002, restart: 0.0005 },
      { flush: 0.05, fail: 0.005, restart: 0.001 },
    ],
    readsPerEntry: 1,
    cold: 0.05,
    surveyEvery: 5000,
  },
];

test('names that collide have one hash', () => {
  const keys = COLLIDING_NAMES.map((name) => Buffer.from(`bucket\0${name}`));
  assert.equal(new Set(keys.map((key) => hashBytes(key, 0, key.length))).size, 1);
});

const hasMany = ({ world }: Profile): boolean => world.buckets.length > 1000;

for (const [position, profile] of PROFILES.entries()) {
  test(`apply agrees with the model: ${profile.name} (SEED=${seed})`, (t) => {
    const random = createRandom(seed + position);
    const world: World = { ...profile.world, random, nowMs: 1_700_000_000_000 };
    const run = new Differential(world, profile.schedules);
    const commands = Math.ceil(COMMANDS * profile.share);
    const startedMs = performance.now();
    try {
      for (let entries = 1; run.counts.commands < commands; entries++) {
        run.entry();
        if (random.chance(profile.readsPerEntry)) run.read();
        if (random.chance(profile.cold)) run.coldStep();
        if (random.chance(0.05)) run.retain();
        if (random.chance(0.01)) run.expire();
        if (entries % profile.surveyEvery === 0) run.survey();
      }
      run.expire();
      run.finish();
      if (profile.cold > 0) {
        // Not among many buckets: each flush looks at every stream and takes those of one bucket, or fewer.
        if (!hasMany(profile)) run.freeze();
        for (let reads = 0; reads < 300; reads++) run.read();
        run.finish();
        run.deleteAll();
        run.finish();
      }
    } catch (error) {
      const where = `command ${run.counts.commands} of "${profile.name}"`;
      const replay = `SEED=${seed} node --test dist/test/stream/differential.test.js`;
      throw new Error(`${where}: ${String(error)} | ${replay}`, { cause: error });
    }
    const perSecond = Math.round((run.counts.commands / (performance.now() - startedMs)) * 1000);
    t.diagnostic(`seed ${seed}, ${perSecond} commands/s, ${JSON.stringify(run.counts)}`);
    if (profile.cold > 0) t.diagnostic(JSON.stringify(run.cold.counts));
    t.diagnostic(JSON.stringify(run.replicas.map((replica) => replica.counts)));
    t.diagnostic(
      [...run.codes]
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([code, count]) => `${code} ${count}`)
        .join(', '),
    );
    // A search that meets no refusals and duplicates has proved little. Among many streams they are rare.
    if (hasMany(profile)) return;
    for (const code of ['OK', 'CREATE_CONFLICT', 'STREAM_NOT_FOUND', 'PRODUCER_SEQ_CONFLICT', 'duplicate']) {
      assert((run.codes.get(code) ?? 0) > commands / 10_000, `${code} happened`);
    }
  });
}
