/**
 * The thread of exports of a simulated node: the product's own work (backup/export/exporting.ts) over the rows that the
 * node's disk holds at some moment after the shard let the export begin. Messages between the two threads take a moment
 * each.
 */
import type { ExportReaders, ExportRun, ExportTaker } from '../../../src/backup/export/export-thread.ts';
import { Exporting, type FromExports } from '../../../src/backup/export/exporting.ts';
import type { ExportOrder, GroupRows } from '../../../src/backup/export/group-export.ts';
import type { RetryClock } from '../../../src/gateway/retry.ts';
import type { SimProcess } from '../process.ts';
import type { World } from '../world.ts';
import { guarded } from './gateway.ts';
import { type StateDigest, type RawRow, digestState } from './state-digest.ts';

const MESSAGE_MS = 0.1;

export interface ReadersParts {
  readonly world: World;
  readonly process: SimProcess;
  /** Delay until the thread knows of the export and its read transaction begins. */
  readonly lateMs: number;
  readonly onOpen: (stateDigest: StateDigest) => void;
}

/** Readers of the node's main thread: they do not wait for the shard. */
export function timersOf(world: World, process: SimProcess): RetryClock {
  return {
    monotonicMs: () => process.runtime.monotonicMs(),
    setTimer(delayMs, run) {
      let wanted = true;
      world.queue.after(delayMs, () => {
        if (wanted && !process.dead) guarded(world, run);
      });
      return () => (wanted = false);
    },
  };
}

export function readersOf({ world, process, lateMs, onOpen }: ReadersParts): ExportReaders {
  const timers = timersOf(world, process);
  const after = (delayMs: number, run: () => void): void => void timers.setTimer(delayMs, run);
  const open = (_shard: number, group: number): GroupRows => {
    const rows = process.store.disk.rowsUnder(process.store.prefix(group));
    onOpen(digestState(rows));
    return rowsOf(rows);
  };
  return {
    open: (shard: number, order: ExportOrder, taker: ExportTaker): ExportRun => {
      let closed = false;
      const exporting = new Exporting({
        open,
        post: (message) =>
          after(MESSAGE_MS, () => {
            if (!closed) tell(taker, message);
          }),
        later: (run) => after(MESSAGE_MS, run),
      });
      after(lateMs, () => {
        if (!closed) exporting.open(1, shard, order);
      });
      return {
        left: (bytes) => after(MESSAGE_MS, () => exporting.left(1, bytes)),
        close: () => {
          closed = true;
          after(MESSAGE_MS, () => exporting.close(1));
        },
      };
    },
  };
}

function tell(taker: ExportTaker, message: FromExports): void {
  if ('piece' in message) taker.piece(message.piece);
  else if ('begun' in message) taker.begun(message.begun.commitIndex, message.begun.digest);
  else if ('end' in message) taker.end();
  else throw new Error(`an export failed: ${message.failed}`);
}

function rowsOf(all: readonly RawRow[]): GroupRows {
  const prefixed = (key: Uint8Array): Uint8Array => {
    const whole = new Uint8Array(2 + key.length);
    whole.set(key, 2);
    return whole;
  };
  return {
    row: (tag) => all.find(([key]) => key.length === 1 && key[0] === tag)?.[1],
    rows: (tags) =>
      tags.flatMap((tag) => {
        return all.filter(([key]) => key[0] === tag).map(([key, value]) => ({ key: prefixed(key), value }));
      }),
    lookAgain: () => undefined,
    close: () => undefined,
  };
}
