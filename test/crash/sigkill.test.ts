// SIGKILL at random moments under load, again and again on the same data directory. After each restart every
// acknowledged append is there, in order, once; an unacknowledged one is there at most once and in its place. KILLS=200
// makes more rounds of it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { createRandom, seedFromEnvironment, type Random } from '../support/random.ts';
import { withServer, within, type TestServer } from '../support/server.ts';
import { IS_THOROUGH } from '../support/thorough.ts';
import { lookAtAll } from './look.ts';
import { createStream, type StreamModel, type Totals } from './model.ts';
import { Writer } from './writer.ts';
import { PATIENCE_MS } from '../support/until.ts';

const ROUNDS = Number(process.env['KILLS'] ?? 3);
const WRITERS = 20;
const SHARED_STREAMS = 4;
/** The kill comes after a random number of answers or milliseconds. */
const ANSWERS_MAX = 1500;
const LOAD_MS_MAX = 350;
/** Fraction of the restarts that are killed before they are ready, and about how long a start takes. */
const INTERRUPTED_STARTS = 0.2;
const START_MS_MAX = 500;

/** Resolves at the random moment of the kill; `answered` is called for every acknowledgement. */
function killMoment(random: Random): { readonly due: Promise<void>; answered(): void } {
  let answersLeft = random.int(1, ANSWERS_MAX);
  const byTime = random.chance(0.5);
  let resolve: () => void = () => undefined;
  const due = byTime ? delay(random.int(1, LOAD_MS_MAX)) : new Promise<void>((done) => (resolve = done));
  return {
    due,
    answered: () => {
      if (--answersLeft === 0) resolve();
    },
  };
}

async function round(server: TestServer, random: Random, writers: readonly Writer[], onAnswer: Hook): Promise<number> {
  const moment = killMoment(random);
  onAnswer.call = () => moment.answered();
  const work = Promise.all(writers.map((writer) => writer.run(server.port)));
  await Promise.race([moment.due, work]);
  assert(server.isRunning, 'the server died before it was killed');
  await server.kill();
  await within(work, PATIENCE_MS, 'writers after the kill');
  // Recovery may be interrupted too, also more than once.
  while (random.chance(INTERRUPTED_STARTS)) await server.startInterrupted(random.int(1, START_MS_MAX));
  return await server.start();
}

interface Hook {
  call: () => void;
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
}

/** One shard dies as two do, in `npm run check`. */
for (const cores of IS_THOROUGH ? [1, 2] : [2]) {
  test(`${ROUNDS} times SIGKILL under load, --cores ${cores}`, async () => {
    const random = createRandom(seedFromEnvironment());
    process.stdout.write(`sigkill, --cores ${cores}: SEED=${random.seed}\n`);
    await withServer({ process: true, cores }, async (server) => {
      const totals: Totals = { acknowledged: 0, unknownPresent: 0, unknownAbsent: 0, deduplicated: 0, refused: 0 };
      const hook: Hook = { call: () => undefined };
      const shared: StreamModel[] = Array.from({ length: SHARED_STREAMS }, (_, i) =>
        createStream(`shared-${i}`, i % 2 === 0, true),
      );
      const writers = Array.from(
        { length: WRITERS },
        (_, id) => new Writer(id, createRandom(random.int(0, 2 ** 31)), shared, totals, () => hook.call()),
      );
      const streams = [...shared, ...writers.flatMap((writer) => writer.streams)];
      await writers[0]?.createShared(server.port);
      const restartsMs: number[] = [];
      for (let i = 0; i < ROUNDS; i++) {
        restartsMs.push(await round(server, random, writers, hook));
        try {
          await lookAtAll(server, streams, totals);
        } catch (error) {
          throw new Error(`round ${i + 1} of ${ROUNDS}, SEED=${random.seed}`, { cause: error });
        }
      }
      assert(totals.acknowledged > ROUNDS, 'the load must be real');
      assert(totals.unknownPresent + totals.unknownAbsent > 0, 'some kill must hit an append in flight');
      const [low, high] = [Math.min(...restartsMs), Math.max(...restartsMs)].map(Math.round);
      process.stdout.write(
        `sigkill, --cores ${cores}: ${ROUNDS} rounds, ${totals.acknowledged} appends acknowledged, none lost or doubled; in flight ` +
          `at a kill: ${totals.unknownPresent} took effect, ${totals.unknownAbsent} did not; ${totals.deduplicated} duplicates ` +
          `recognised, ${totals.refused} refused; restart ${low}/${Math.round(median(restartsMs))}/${high} ms (min/median/max)\n`,
      );
    });
  });
}
