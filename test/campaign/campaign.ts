// Runs trials in processes that are replaced when they die, hang, or have held many nodes.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { type Ending, GOOD, type Verdict } from './ending.ts';
import type { Trial } from './trial.ts';
import type { Order, Told } from './trials.process.ts';

export interface Result extends Verdict {
  /** The change, and its file. */
  readonly did: string;
}

export interface Campaign {
  readonly orders: readonly Order[];
  /** Where prepared directories are and trials work. */
  readonly folder: string;
  /** Processes side by side. */
  readonly processes: number;
  readonly onResult: (order: Order, result: Result) => void;
}

/** A trial takes seconds; on a machine with ten times as much work as cores some minutes. */
const HANG_MS = 300_000;
/** Nodes that failed may leave threads and descriptors behind. */
const TRIALS_OF_A_PROCESS = 100;

export async function runCampaign(campaign: Campaign): Promise<void> {
  const waiting = [...campaign.orders].reverse();
  const workers = Array.from({ length: campaign.processes }, async (_, lane) => {
    for (let n = 0; waiting.length > 0; n++) {
      const own = join(campaign.folder, `trials-${process.pid}-${lane}-${n}`);
      const trials = new TrialProcess(own, join(campaign.folder, 'prepared'));
      try {
        for (let i = 0; i < TRIALS_OF_A_PROCESS && trials.isFit; i++) {
          const order = waiting.pop();
          if (order === undefined) break;
          campaign.onResult(order, await trials.run(order));
        }
      } finally {
        await trials.end();
      }
    }
  });
  await Promise.all(workers);
}

class TrialProcess {
  readonly #folder: string;
  readonly #child: ChildProcess;
  #output = '';
  /** Another one takes over after anything but a result: what is left of a node there may disturb the next one. */
  isFit = true;

  constructor(folder: string, prepared: string) {
    this.#folder = folder;
    mkdirSync(folder, { recursive: true });
    mkdirSync(prepared, { recursive: true });
    const env = { ...process.env, TMPDIR: folder };
    const entry = new URL('./trials.process.js', import.meta.url);
    this.#child = fork(entry, [folder, prepared], { env, stdio: ['ignore', 'pipe', 'pipe', 'ipc'] });
    const keep = (chunk: Buffer): void => void (this.#output = (this.#output + chunk.toString()).slice(-4000));
    this.#child.stdout?.on('data', keep);
    this.#child.stderr?.on('data', keep);
  }

  async run(order: Order): Promise<Result> {
    let did = '?';
    let timeout: NodeJS.Timeout | undefined;
    const verdict = await new Promise<Verdict>((resolve) => {
      const bad = (why: string): void => resolve({ ending: 'BAD', why });
      timeout = setTimeout(() => bad(`it hung for ${HANG_MS / 1000} s`), HANG_MS);
      this.#child.removeAllListeners('message').on('message', (message: Told) => {
        if ('did' in message) did = message.did;
        else resolve(message);
      });
      this.#child.removeAllListeners('exit').on('exit', (code, signal) => {
        bad(`the process ended with ${code ?? signal}: ${this.#output.slice(-600)}`);
      });
      this.#child.send(order);
    });
    clearTimeout(timeout);
    if (verdict.ending === 'BAD') this.isFit = false;
    return { ...verdict, did };
  }

  async end(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      const ended = once(this.#child, 'exit');
      this.#child.kill('SIGKILL');
      await ended;
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

const ENDINGS: readonly Ending[] = [...GOOD, 'BAD'];

/** Endings by scene, place and fault. */
export class Tally {
  readonly #counts = new Map<string, Map<Ending, number>>();
  count = 0;
  bad = 0;

  add({ scene, place, fault }: Trial, { ending }: Result): void {
    this.count++;
    if (ending === 'BAD') this.bad++;
    for (const name of [`${scene} | ${place} | ${fault}`, 'all | |']) {
      const counts = this.#counts.get(name) ?? new Map<Ending, number>();
      this.#counts.set(name, counts.set(ending, (counts.get(ending) ?? 0) + 1));
    }
  }

  table(): string {
    const head = ['Scene | Place | Fault', ...ENDINGS].join(' | ');
    const rows = [...this.#counts]
      .sort(([a], [b]) => Number(a.startsWith('all')) - Number(b.startsWith('all')) || (a < b ? -1 : 1))
      .map(([name, counts]) => [name, ...ENDINGS.map((ending) => counts.get(ending) ?? 0)].join(' | '));
    return [head, '--- | --- | --- | ---: | ---: | ---: | ---:', ...rows].map((row) => `| ${row} |\n`).join('');
  }
}
