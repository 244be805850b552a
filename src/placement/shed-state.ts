/**
 * Why this node must not lead: the operator's drain mark and the gates' findings, and what the shards were told. The
 * mark is a small file in the data directory, so that it survives restarts until DELETE. The file is written first, so
 * an acknowledged mark is never forgotten. The findings are not stored.
 *
 *   leadership-shed.json   {"format":1,"maintenance_drain":true}; missing: never marked
 */
import { open, rename, writeFile } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { MillraceError } from '../base/errors.ts';
import { ConfigError } from '../config/error.ts';
import type { RetryClock, RetryPolicy } from '../gateway/retry.ts';
import { callShard, firstRefusal } from '../gateway/shard-client.ts';
import type { DrainMark } from './ports.ts';
import type { ShardGateway } from '../ports.ts';
import type { ShedRequest } from '../protocol/queries/administration.ts';
import { SHED_COLD, SHED_DRAIN, SHED_EGRESS, SHED_STALL } from './state/shed.ts';
import { QUERIES } from '../protocol/operations.ts';
import { caughtCode, caughtMessage } from '../base/caught.ts';

const FILE = 'leadership-shed.json';
const FORMAT = 1;
/** After this long with a full mailbox the operator is told to repeat. */
const POLICY: RetryPolicy = { patienceMs: 2000, againMs: 20, isPassing: (code) => code === 'SHARD_BUSY' };

/** Throws ConfigError for a foreign or damaged file: a guess could let a node lead that must not. */
export function readDrainMark(dataDir: string): boolean {
  const refused = (why: string): ConfigError =>
    new ConfigError(
      `storage.data_dir ${dataDir}: ${FILE} ${why}; remove it to lift the drain mark, or mark the node again after the start`,
    );
  let text: string;
  try {
    text = readFileSync(join(dataDir, FILE), 'utf8');
  } catch (error) {
    if (caughtCode(error) === 'ENOENT') return false;
    throw refused(`cannot be read (${caughtMessage(error)})`);
  }
  let found: unknown;
  try {
    found = JSON.parse(text);
  } catch {
    throw refused('is damaged: it is not JSON');
  }
  const { format, maintenance_drain: draining } = (found ?? {}) as { format?: unknown; maintenance_drain?: unknown };
  if (typeof draining !== 'boolean') throw refused('is damaged: maintenance_drain is neither true nor false');
  if (format !== FORMAT) throw refused(`was written by another version (format ${JSON.stringify(format)})`);
  return draining;
}

/** Atomic and durable: the old file or the new one, and the new one once this resolves. */
export async function writeDrainMark(dataDir: string, draining: boolean): Promise<void> {
  const file = join(dataDir, FILE);
  const text = `${JSON.stringify({ format: FORMAT, maintenance_drain: draining })}\n`;
  await writeFile(`${file}.new`, text, { mode: 0o600, flush: true });
  await rename(`${file}.new`, file);
  // A new name is durable once its directory is synced.
  const folder = await open(dataDir, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** The egress gate's findings. */
export interface EgressState {
  readonly isImpaired: boolean;
  /** It may lead anyway, because otherwise no node would. */
  readonly mayLead: boolean;
}

export interface ShedOptions {
  readonly gateway: ShardGateway;
  readonly dataDir: string;
  readonly runtime: RetryClock;
}

export class ShedState implements DrainMark {
  readonly #options: ShedOptions;
  #draining: boolean;
  #egress: EgressState = { isImpaired: false, mayLead: true };
  #isColdCut = false;
  #hasStalled = false;
  /** Changes run one after the other, so that file and shards end with the same one. */
  #last: Promise<void> = Promise.resolve();

  constructor(options: ShedOptions, draining: boolean) {
    this.#options = options;
    this.#draining = draining;
  }

  get draining(): boolean {
    return this.#draining;
  }

  get bits(): number {
    const found = (this.#egress.isImpaired ? SHED_EGRESS : 0) | (this.#isColdCut ? SHED_COLD : 0);
    return (this.#draining ? SHED_DRAIN : 0) | found | (this.#hasStalled ? SHED_STALL : 0);
  }

  set(wanted: 'draining' | 'serving'): Promise<void> {
    return this.#inTurn(() => this.#change(wanted === 'draining'));
  }

  /** Rejects as `apply` does; it is in force for the balancer anyway, and a repeat tells the shards. */
  setEgress(egress: EgressState): Promise<void> {
    return this.#inTurn(() => {
      this.#egress = egress;
      return this.apply();
    });
  }

  /** This node does not reach the cold store, or does again. Rejects as setEgress() does. */
  setColdCut(isColdCut: boolean): Promise<void> {
    return this.#inTurn(() => {
      this.#isColdCut = isColdCut;
      return this.apply();
    });
  }

  /** Groups of the node gave up leaderships without commits recently, or no longer. Rejects as setEgress() does. */
  async setStalled(hasStalled: boolean): Promise<void> {
    if (hasStalled === this.#hasStalled) return;
    await this.#inTurn(() => {
      this.#hasStalled = hasStalled;
      return this.apply();
    });
  }

  /** Tells every shard the current state; at start before the first request. Rejects with a MillraceError. */
  async apply(): Promise<void> {
    const never = this.#draining || (this.#egress.isImpaired && !this.#egress.mayLead);
    const priority = never ? 'none' : this.#isColdCut ? 'low' : 'normal';
    const asked: ShedRequest = { priority, reasons: this.bits };
    const { gateway, runtime } = this.#options;
    const shards = Array.from({ length: gateway.shardCount }, (_, shard) => shard);
    const retry = { clock: runtime, policy: POLICY };
    const answers = await Promise.all(shards.map((shard) => callShard(gateway, QUERIES.shed, shard, asked, { retry })));
    const refused = firstRefusal(answers);
    if (refused !== undefined) throw new MillraceError(refused.code);
  }

  #inTurn(run: () => Promise<void>): Promise<void> {
    const change = this.#last.then(run);
    this.#last = change.catch(() => undefined);
    return change;
  }

  async #change(draining: boolean): Promise<void> {
    if (draining !== this.#draining) {
      try {
        await writeDrainMark(this.#options.dataDir, draining);
      } catch (error) {
        const isFull = ['ENOSPC', 'EDQUOT'].includes(caughtCode(error));
        throw isFull ? new MillraceError('DISK_FULL', undefined, { cause: error }) : error;
      }
      this.#draining = draining;
    }
    // The shards are told even when nothing changed: an earlier call may have failed between file and shards.
    await this.apply();
  }
}
