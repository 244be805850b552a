// Trials of a node that has no peers: nothing can restore what it loses, so it serves it right or refuses it.
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { createRandom } from '../support/random.ts';
import { TestServer, within } from '../support/server.ts';
import { type Look, type Phase, type Wanted, append, look, wantedOf } from './content.ts';
import { type Verdict, ofEnd, ofLooks } from './ending.ts';
import { damage } from './faults.ts';
import { filesOf, isOwnPast } from './places.ts';
import { GROUPS, NOTHING_MOVES, type Prepared, SINGLES, type Single } from './prepared.ts';
import type { Place, Trial } from './trial.ts';

export interface SingleTrial {
  readonly trial: Trial;
  readonly prepared: Prepared;
  readonly folder: string;
  readonly note: (did: string) => void;
}

/** So many trials start the node once more, on what the damaged start made of it. */
const AGAIN = 0.3;
const ENDS_MS = 30_000;

const phasesOf = (how: Single): readonly Phase[] => (how === 'killed' ? ['cold', 'early', 'late'] : ['cold', 'early']);

export async function single({ trial, prepared, folder, note }: SingleTrial, place: Place): Promise<Verdict> {
  await prepared.make('single');
  const random = createRandom(trial.seed ^ 0x51);
  const how = random.pick(SINGLES);
  const other = how === 'killed' ? 'stopped' : 'killed';
  const dataDir = join(folder, 'data');
  cpSync(prepared.single(how), dataDir, { recursive: true });
  const others = isOwnPast(place, how) ? [] : filesOf(place, prepared.single(other));
  const isRunning = trial.scene === 'running';
  const hurt = (): void =>
    note(`${how}: ${damage(filesOf(place, dataDir), isRunning ? [] : others, trial.fault, random)}`);
  const wanted = { ...wantedOf(phasesOf(how)), isAlone: true };
  const run = new SingleRun(dataDir);
  try {
    if (!isRunning) {
      hurt();
      return await run.looks(wanted, random.chance(AGAIN) ? 2 : 1);
    }
    await run.start();
    hurt();
    return await run.whileItRuns(wanted);
  } finally {
    await run.end();
  }
}

class SingleRun {
  readonly #server: TestServer;
  readonly #looks: Look[] = [];

  constructor(dataDir: string) {
    this.#server = new TestServer({ cores: 1, groups: GROUPS, dataDir, toml: NOTHING_MOVES });
  }

  /** Undefined: it serves. */
  async start(): Promise<Verdict | undefined> {
    try {
      // A node without one of its groups, whose rows were lost, serves the others and never says that it is ready.
      await this.#server.start('health');
      return undefined;
    } catch (error) {
      if (this.#server.isRunning) throw error;
      return ofEnd(await this.#server.exited, this.#server.log());
    }
  }

  /** Looks at everything after each of so many starts; between them it appends and stops. */
  async looks(wanted: Wanted, starts: number): Promise<Verdict> {
    for (let i = 0; i < starts; i++) {
      const failed = await this.start();
      if (failed !== undefined) return failed;
      const ended = await this.#lookNow(wanted);
      if (ended !== undefined) return ended;
      if (i + 1 < starts) await this.#server.stop();
    }
    return ofLooks(this.#looks);
  }

  async whileItRuns(wanted: Wanted): Promise<Verdict> {
    const ended = await this.#lookNow(wanted);
    if (ended !== undefined) return ended;
    await this.#server.stop();
    return await this.looks(wanted, 1);
  }

  async #lookNow(wanted: Wanted): Promise<Verdict | undefined> {
    const { port } = this.#server;
    try {
      this.#looks.push(await look(port, wanted), await append(port, wanted), await look(port, wanted));
    } catch (error) {
      // The connection ends before the node has.
      return await within(this.#ended(), ENDS_MS, `the node ends after ${String(error)}`);
    }
    return this.#server.isRunning ? undefined : ofEnd(await this.#server.exited, this.#server.log());
  }

  async #ended(): Promise<Verdict> {
    return ofEnd(await this.#server.exited, this.#server.log());
  }

  async end(): Promise<void> {
    await this.#server.dispose();
  }
}
